// Verifies a presented key: shape, hash, record (from memory while it may be trusted), status, last use.

import { type Metadata, mergedMetadata } from '../ground/metadata.ts';
import type { KeyRefusal, Problem } from '../ground/problem.ts';
import type { Awaitable } from '../ground/result.ts';
import type { Clock, Sha256 } from '../ground/runtime.ts';
import type { Usage } from '../uses/usage.ts';
import type { Caller } from './actor.ts';
import type { Audience } from './audience.ts';
import { createUseFirst, type FirstUsesOptions } from './first-uses.ts';
import type { KnownKey } from './key-cache.ts';
import { createKnownKeys, type KnownKeysOptions } from './known-keys.ts';
import { fingerprintOf, hashKey, isKeyShaped, refusalAt } from './record.ts';

/** Who is behind a verified key: what tools see as `auth`. */
export interface KeyIdentity {
  readonly subject: string;
  readonly keyId: string;
  readonly keyName: string;
  readonly scopes: readonly string[];
  readonly createdAtMs: number;
  /** Null: never. */
  readonly expiresAtMs: number | null;
  /** The one server that the key is good for; null: any. */
  readonly resource: string | null;
  /** The operator's data of the owner with the key's own over it; null: none. */
  readonly metadata: Metadata | null;
  readonly token: string;
}

/**
 * `verifiedAtMs`, monotonic: changes after it were not looked at. `endsAtMs`: the last millisecond at which key and
 * secret are accepted, as far as is known; null: there is none.
 */
export type Verified =
  | {
      readonly ok: true;
      readonly value: KeyIdentity;
      readonly verifiedAtMs: number;
      readonly endsAtMs: number | null;
    }
  | { readonly ok: false; readonly error: Problem };

/**
 * `use`: a call; its last use is noted. `confirm`: the same call once more, before its success leaves. `pasting`: a
 * person hands the key to a page; noted too. `look`: notes nothing. The last two complete no rotation.
 */
type Purpose = 'use' | 'confirm' | 'pasting' | 'look';

interface Presented {
  readonly token: string;
  readonly keyHash: string;
  readonly caller: Caller;
  readonly purpose: Purpose;
}

export type Verifier = ReturnType<typeof createVerifier>;

export interface VerifierOptions extends KnownKeysOptions, FirstUsesOptions {
  readonly usage: Pick<Usage, 'note'>;
  readonly audience: Audience;
  readonly clock: Clock;
  readonly sha256: Sha256;
}

export function createVerifier(options: VerifierOptions) {
  const { feed, clock, sha256 } = options;
  const known = createKnownKeys(options);
  const useFirst = createUseFirst(options, known);
  const evaluate = createEvaluate(options);

  function decide(token: string, caller: Caller, purpose: Purpose): Awaitable<Verified> {
    if (!isKeyShaped(token)) return refusal({ reason: 'malformed' });
    const presented = { token, keyHash: hashKey(sha256, token), caller, purpose };
    const nowMs = clock.monotonicMs();
    if (feed.current(nowMs)) return decideNow(presented, nowMs);
    return feed.ensureFresh().then(() => decideNow(presented, clock.monotonicMs()));
  }

  function decideNow(presented: Presented, nowMs: number): Awaitable<Verified> {
    const { polledAtMs } = feed;
    const { keyHash, caller } = presented;
    const recalled = known.recall(keyHash, nowMs);
    if (recalled !== undefined) return decideOn(recalled, presented, polledAtMs);
    return known.read(keyHash, caller).then((read) => (read.ok ? decideOn(read.value, presented, polledAtMs) : read));
  }

  function decideOn(key: KnownKey | null, presented: Presented, verifiedAtMs: number): Awaitable<Verified> {
    if (isFirstUse(key, presented)) return decideFirstUse(key, presented);
    const evaluated = evaluate(key, presented, verifiedAtMs);
    if (!evaluated.ok && key !== null) known.dropEnded(presented.keyHash, key);
    return evaluated;
  }

  const isFirstUse = (key: KnownKey | null, { caller, purpose }: Presented): key is KnownKey =>
    key?.presented === 'next' &&
    known.isUsable(key) &&
    options.audience.admits(key.resource, caller) &&
    (purpose === 'use' || purpose === 'confirm');

  async function decideFirstUse(key: KnownKey, presented: Presented): Promise<Verified> {
    const { found, polledAtMs } = await useFirst(key, presented.keyHash, presented.caller);
    return evaluate(found, presented, polledAtMs);
  }

  return {
    /**
     * Decides on a presented key, and notes its use. A known key costs no read and no write while the feed is current,
     * but the first use of a next secret is written first, durably. The caller's address is asked for only if the store
     * is.
     */
    verify: (token: string, caller: Caller) => decide(token, caller, 'use'),
    /** As `verify`, of a key whose use is noted already. */
    confirm: (token: string, caller: Caller) => decide(token, caller, 'confirm'),
    /** As `verify`, of a key that somebody pastes into a page: it completes no rotation. */
    paste: (token: string, caller: Caller) => decide(token, caller, 'pasting'),
    /** As `paste`, but notes nothing. */
    look: (token: string, caller: Caller) => decide(token, caller, 'look'),
    /** What is known of a key by the hash of a secret: null if it isn't good; undefined if it has to be read. */
    recall(keyHash: string): KnownKey | null | undefined {
      const key = feed.current() ? known.recall(keyHash, clock.monotonicMs()) : undefined;
      return key === undefined || known.isUsable(key) ? key : null;
    },
    /** Reads the keys with secrets of these hashes with one statement, so that `recall` knows them. */
    readAll: known.readAll,
    /** How often the store was read. */
    get reads() {
      return known.reads;
    },
  };
}

/** Creates the function that says who is behind a key, or why it is refused, and notes a use. */
const createEvaluate =
  ({ usage, audience, clock }: Pick<VerifierOptions, 'usage' | 'audience' | 'clock'>) =>
  (key: KnownKey | null, { token, caller, purpose }: Presented, verifiedAtMs: number): Verified => {
    if (key === null) return refusal({ reason: 'unknown' });
    const nowMs = clock.nowMs();
    const { userId, id, name, scopes, createdAtMs, expiresAtMs, resource } = key;
    const isMeant = audience.admits(resource, caller);
    const reason = refusalAt(key, nowMs) ?? (isMeant ? null : 'other resource');
    if (reason !== null) return refusal({ reason, keyId: id, userId, fingerprint: fingerprintOf(key.keyHash) });
    if (purpose === 'use' || purpose === 'pasting') usage.note(key, nowMs);
    const metadata = mergedMetadata(key.owner?.metadata ?? null, key.metadata);
    const ids = { subject: userId, keyId: id, keyName: name };
    const value = { ...ids, scopes, createdAtMs, expiresAtMs, resource, metadata, token };
    return { ok: true, value, verifiedAtMs, endsAtMs: earlier(expiresAtMs, key.secretEndsAtMs) };
  };

const earlier = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b);

const refusal = (found: { reason: KeyRefusal; keyId?: string; userId?: string; fingerprint?: string }): Verified => ({
  ok: false,
  error: { code: 'invalid_api_key', ...found },
});
