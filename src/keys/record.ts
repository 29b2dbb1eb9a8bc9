// Defines an API key: its record, why it is refused, the state of its rotation, and the form of secrets and ids. Pure.
// In a rotation with an overlap the secret in force stays until the next one is used, so a lost response, or a secret
// never deployed, locks nobody out.

import type { Metadata } from '../ground/metadata.ts';
import type { KeyRefusal, Problem } from '../ground/problem.ts';
import type { Limits } from '../ground/rate-limit.ts';
import type { RandomBytes, Sha256 } from '../ground/runtime.ts';
import { KEY_PREFIX_PATTERN } from '../ground/text.ts';

/** The second secret of a key that is being rotated. */
type SecondSecret = {
  /** SHA-256 of the second secret, written like `keyHash`. */
  readonly hash: string;
} & (
  | { readonly is: 'next'; readonly endsAtMs: null } // not used yet; its first use puts it in force
  | { readonly is: 'previous'; readonly endsAtMs: number } // accepted up to and including this millisecond
);

export interface ApiKeyRecord extends Limits {
  /** 32 lowercase hex characters. */
  readonly id: string;
  readonly userId: string;
  readonly name: string;
  /** SHA-256 of the secret in force, 64 lowercase hex characters. No response has it whole. */
  readonly keyHash: string;
  readonly scopes: readonly string[];
  readonly active: boolean;
  readonly createdAtMs: number;
  /** Last millisecond at which the key is accepted; null: it never expires. */
  readonly expiresAtMs: number | null;
  /** The other secret of a rotation. A previous one stays on record after it has ended. */
  readonly second: SecondSecret | null;
  /** Grows with each rotation. */
  readonly rotations: number;
  /** The one server that it is good for (audience.ts); null: any. */
  readonly resource: string | null;
  /** The key's own, which overrides its owner's; null: none. */
  readonly metadata: Metadata | null;
  /** The hash of a secret of another form, like `keyHash`; null: it never had one. It may have been rotated away. */
  readonly foreignHash: string | null;
}

export const NEW_KEY = {
  active: true,
  second: null,
  rotations: 0,
  rateLimit: null,
  quota: null,
  resource: null,
  metadata: null,
  foreignHash: null,
} satisfies Partial<ApiKeyRecord>;

/** The refusal of an id that no key of the owner has. */
export const KEY_NOT_FOUND = { code: 'key_not_found' } as const satisfies Problem;

/** What an operator has set for an owner, for all keys together; null: the server's default. */
export interface OwnerSettings extends Limits {
  /** How many keys the owner may have, in any state. */
  readonly keysMax: number | null;
  readonly metadata: Metadata | null;
}

/** The parent of a derived key, and the one secret of it with which the derived key ends. */
interface Parent {
  readonly id: string;
  /** The hash of that secret. */
  readonly keyHash: string;
  /** The key found by it; null: no key has it any more. The cache puts its own object here (known-keys.ts). */
  key: PresentedKey | null;
}

/** A record found by the hash of one of its secrets. A derived key is one already cut to what its parent has. */
export interface PresentedKey extends ApiKeyRecord {
  readonly presentedHash: string;
  /** What has that hash. */
  readonly presented: 'in_force' | SecondSecret['is'] | 'rule';
  /** Last millisecond at which the presented secret is accepted; null: its rotation sets no end. */
  readonly secretEndsAtMs: number | null;
  /** Why it is refused although its record is in order: its owner is blocked, or its parent gives no access. */
  readonly barred: 'blocked' | 'parent ended' | null;
  /** The key that it is derived from, for which its uses count; null: it is derived from none. */
  readonly parent: Parent | null;
  /** The owner's settings; null: none. Owners with equal settings share one object. */
  readonly ownerSettings: OwnerSettings | null;
}

export interface ListedKey extends ApiKeyRecord {
  /** When it was last used; null: never. */
  readonly lastUsedAtMs: number | null;
  /** How many rules let workloads act as it. */
  readonly rules: number;
}

/** Returns whether an end has passed. Its last millisecond is still good; null: no end. */
export const hasEnded = (endsAtMs: number | null, nowMs: number): boolean => endsAtMs !== null && endsAtMs < nowMs;

interface Ends extends Pick<PresentedKey, 'active' | 'expiresAtMs' | 'secretEndsAtMs'> {}

/** Returns why a key without a parent has ended; null: it hasn't. A block of its owner is no end. */
export function whyEnded(key: Ends, nowMs: number): KeyRefusal | null {
  if (!key.active) return 'revoked';
  if (hasEnded(key.expiresAtMs, nowMs)) return 'expired';
  return hasEnded(key.secretEndsAtMs, nowMs) ? 'rotated' : null;
}

/** Returns why a key is refused; null: it is usable. A revoked key is that, whatever bars it, too. */
export const refusalAt = (key: Ends & Pick<PresentedKey, 'barred'>, nowMs: number): KeyRefusal | null =>
  key.active && key.barred !== null ? key.barred : whyEnded(key, nowMs);

/** Returns the key that uses of this one count for: of a derived key its parent, which may be gone (null). */
export const countedKey = (key: PresentedKey): PresentedKey | null => (key.parent === null ? key : key.parent.key);

/** Returns the earlier of two ends; null: no end. */
export function earlier(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other;
  return Math.min(one, other);
}

/** Returns when the presented secret of a key ends, as far as is known; null: never. */
export const endOf = ({ expiresAtMs, secretEndsAtMs }: PresentedKey): number | null =>
  earlier(expiresAtMs, secretEndsAtMs);

const FINGERPRINT_CHARS = 12;

/** Returns the first 48 bits of a secret's hash: enough to find the key's record, and they reveal nothing. */
export const fingerprintOf = (keyHash: string): string => keyHash.slice(0, FINGERPRINT_CHARS);

const livingSecond = ({ second }: ApiKeyRecord, nowMs: number): SecondSecret | null =>
  second === null || hasEnded(second.endsAtMs, nowMs) ? null : second;

export type Rotation = NonNullable<ReturnType<typeof rotationAt>>;

export function rotationAt(record: ApiKeyRecord, nowMs: number) {
  const second = livingSecond(record, nowMs);
  if (second === null || !record.active) return null;
  return {
    /** `until_first_use` of the new secret; `overlapping` while the previous one is still accepted. */
    state: second.is === 'next' ? 'until_first_use' : 'overlapping',
    /** Last millisecond at which the previous secret is accepted; null before the first use. */
    previousUntilMs: second.endsAtMs,
    /** The fingerprint of the secret that isn't in force. */
    otherFingerprint: fingerprintOf(second.hash),
  } as const;
}

/** Returns why a key can't be rotated like this; null: it can. A key has at most two secrets. */
export function rotationRefusal(record: ApiKeyRecord, overlapMs: number, nowMs: number): Problem | null {
  if (!record.active || hasEnded(record.expiresAtMs, nowMs)) return { code: 'key_not_active' };
  const second = livingSecond(record, nowMs);
  if (overlapMs > 0 && second?.is === 'previous') return { code: 'rotation_under_way', untilMs: second.endsAtMs };
  return null;
}

const KEY_RANDOM_BYTES = 32;
const ID_RANDOM_BYTES = 16;

const KEY_SHAPE = new RegExp(`^${KEY_PREFIX_PATTERN}_(?:live|test)_[0-9a-f]{64}$`);
const ID_SHAPE = /^[0-9a-f]{32}$/;

export interface MintOptions {
  readonly keyPrefix: string;
  readonly production: boolean;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
}

/** Makes `sk_live_…` in production, `sk_test_…` elsewhere, with `sk` or another prefix. Only its hash is stored. */
export function mintKey({ keyPrefix, production, random, sha256 }: MintOptions) {
  const key = `${keyPrefix}_${production ? 'live' : 'test'}_${random(KEY_RANDOM_BYTES).toHex()}`;
  return { key, keyHash: hashKey(sha256, key) };
}

export const mintId = (random: RandomBytes): string => random(ID_RANDOM_BYTES).toHex();

/** Returns whether a text could be a key. Any prefix passes, so keys survive a change of the configured one. */
export const isKeyShaped = (token: string): boolean => KEY_SHAPE.test(token);

/** A JWT's header is a JSON object, so its base64url begins with `eyJ`, or with the encoding of a brace and white space. */
const JWT_BEGINS = /^e(?:yJ|yA|w[0ko])/;
/** A JWT in compact form (RFC 7519 §3.1). */
const JWT_SHAPE = new RegExp(`${JWT_BEGINS.source}[\\w-]*\\.[\\w-]+\\.[\\w-]*$`);

export const isJwtShaped = (token: string): boolean => JWT_SHAPE.test(token);

const FOREIGN_CHARS_MAX = 256;
const FOREIGN_SHAPE = new RegExp(`^[\\x21-\\x7e]{20,${FOREIGN_CHARS_MAX}}$`);

/**
 * Returns whether a text may be a user token. What is too long for a key only has to begin like one: to look at all of a
 * token takes longer than to hash it.
 */
export const mayBeJwt = (token: string): boolean =>
  token.length > FOREIGN_CHARS_MAX ? JWT_BEGINS.test(token) : isJwtShaped(token);

/** Returns whether a text could be a key of another form, made by another system (`keys import`). */
export const isForeignShaped = (token: string): boolean =>
  FOREIGN_SHAPE.test(token) && !isKeyShaped(token) && !isJwtShaped(token);

/** Returns whether a text could be a record id, and so is safe to log. */
export const isIdShaped = (id: string): boolean => ID_SHAPE.test(id);

/** Returns SHA-256 as 64 lowercase hex characters. A slow password hash would add nothing to 256 random bits. */
export const hashKey = (sha256: Sha256, key: string): string => sha256(key, 'hex');

/** A new secret, with its key's record: of a rotation as it was read before, with the new expiry. */
export interface MadeKey {
  readonly record: ApiKeyRecord;
  /** Its plain text, shown only once. */
  readonly key: string;
}
