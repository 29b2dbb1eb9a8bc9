// Authorization codes of 32 random bytes: a person's answer becomes one, and a client's request opens it. The store keeps a
// code's content under its SHA-256, encrypted with a key derived from the code: neither the database alone nor a code in a
// log alone reveals it. A key that a person has decided on is made here when its code, or a device's, is redeemed.

import { type Refusal, refused } from '../../api/oauth.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock, RandomBytes } from '../../ground/runtime.ts';
import { type Actor, actorBy, type Caller, createBudget, type Origin, personOf } from '../../keys/actor.ts';
import { type DecidedKey, type KeyOrder, logCreated } from '../../keys/minting.ts';
import type { MadeKey } from '../../keys/record.ts';
import type { KeyIdentity } from '../../keys/verify.ts';
import { type AuthorizationRequest, locationOf } from './authorization-request.ts';
import type { SignInParts } from './options.ts';

export interface CodeContent {
  /** A pasted key, or the order of a new one. */
  readonly handsOut: { readonly key: string } | { readonly order: KeyOrder };
  /** SHA-256 of the client's id. */
  readonly client: string;
  /** The challenge of PKCE (RFC 7636), method S256. */
  readonly challenge: string;
  readonly redirectUri: string;
  /** The server that the key is for, by its stored name (keys/audience.ts). */
  readonly resource: string;
}

/** A code's hash and content, or the id of the key that it was redeemed for before. */
type Opened = { readonly hash: string; readonly content: CodeContent } | { readonly takenFor: string };

/** The life of a code, enough for even a slow request of the client. */
const CODE_TTL_MS = 60_000;

/**
 * Returns whether what lives so long is over. Tolerates clocks of processes that differ by its life. A clock that is set
 * back further must not prolong it.
 */
export function isOver(endsAtMs: number, lifeMs: number, clock: Clock): boolean {
  const leftMs = endsAtMs - clock.nowMs();
  return leftMs <= 0 || leftMs > 2 * lifeMs;
}

const CODE_BYTES = 32;

const ALPHABET = { alphabet: 'base64url', omitPadding: true } as const;

export const makeCode = (random: RandomBytes): string => random(CODE_BYTES).toBase64(ALPHABET);

export type Codes = ReturnType<typeof createCodes>;

export function createCodes({ store, findCode, keys, clock, random, sha256, log }: SignInParts) {
  const signIns = createBudget('connect', [LIMITS.signIns], clock, log);

  /** Seals what is handed out in a code, and returns the redirect with it. */
  async function redirectWithCode(
    request: AuthorizationRequest,
    handsOut: CodeContent['handsOut'],
    fairnessKey: string,
  ): Promise<Result<string, Problem>> {
    const { clientId, challenge, redirectUri, server } = request;
    const client = sha256(clientId, 'base64url');
    const content: CodeContent = { handsOut, client, challenge, redirectUri, resource: server };
    const code = makeCode(random);
    const sealed = await crypto.subtle.encrypt(
      AES_GCM,
      await keyOf(code),
      new TextEncoder().encode(JSON.stringify(content)),
    );
    const isPut = await store.put({
      hash: sha256(code, 'hex'),
      content: new Uint8Array(sealed).toBase64(),
      endsAtMs: clock.nowMs() + CODE_TTL_MS,
      newKeyOf: 'order' in handsOut ? handsOut.order.userId : null,
      fairnessKey,
    });
    return isPut ? ok(locationOf(request, { code })) : err({ code: 'key_limit_reached' });
  }

  return {
    /** Returns the redirect, with a code, for a person who pasted a good key. */
    async pasted(
      request: AuthorizationRequest,
      key: string,
      { keyId, subject: userId }: KeyIdentity,
      { requestId }: Caller,
    ): Promise<Result<string, Problem>> {
      const taken = signIns.take(keyId, { requestId, keyId, userId });
      return taken.ok ? redirectWithCode(request, { key }, keyId) : taken;
    },

    /** Returns the redirect, with a code, for a person who decided on a new key. */
    async ordered(request: AuthorizationRequest, actor: Actor, input: DecidedKey): Promise<Result<string, Problem>> {
      const ordered = keys.order(actor, { ...input, server: request.server });
      return ordered.ok ? redirectWithCode(request, { order: ordered.value }, personOf(actor)) : ordered;
    },

    /** Resolves with the code's content. Null: it is no client's code of this database, or expired. */
    async open(code: string, caller: Caller): Promise<Result<Opened | null, Problem>> {
      const found = await findCode(code, caller);
      if (!found.ok) return found;
      if (found.value === null) return ok(null);
      const { hash, content, endsAtMs, isTaken, isDevice, keyId } = found.value;
      if (isDevice) return ok(null);
      if (isTaken) return ok({ takenFor: keyId ?? '' });
      if (isOver(endsAtMs, CODE_TTL_MS, clock)) return ok(null);
      const text = await crypto.subtle.decrypt(AES_GCM, await keyOf(code), Uint8Array.fromBase64(content));
      return ok({ hash, content: JSON.parse(new TextDecoder().decode(text)) }); // written above, so it has this shape
    },
  };
}

/** Each code encrypts once, so all may share a nonce (NIST SP 800-38D §8.2). */
const AES_GCM = { name: 'AES-GCM', iv: new Uint8Array(12) };

/** Derives the key that encrypts a code's content. It differs from the hash, which the database reveals. */
async function keyOf(code: string): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey('raw', new TextEncoder().encode(code), 'HKDF', false, ['deriveKey']);
  const hkdf = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: new TextEncoder().encode('code') };
  return crypto.subtle.deriveKey(hkdf, base, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']);
}

/** The database says no more: one statement decides. */
const NOT_MADE = 'the code was redeemed or has ended, or its owner is blocked, deleted, or has as many keys as he may';

/**
 * Returns the function that creates the key. `handed` is the origin of the event that a client got it; null for a device,
 * for which creating it is the event.
 */
export const createMakeKey =
  ({ store, keys, originOf, log }: SignInParts) =>
  async (
    order: KeyOrder,
    hash: string,
    how: 'oauth' | 'device',
    handed: Origin | null,
    caller: Caller,
  ): Promise<Result<MadeKey, Refusal>> => {
    const minted = keys.mint(order, caller);
    const { userId } = order;
    if (!minted.ok) return refused('invalid_grant', 'KEY_SCOPES or KEY_MAX_DAYS was lowered meanwhile', { userId });
    const { record } = minted.value;
    const made = await store.make(hash, record, originOf(how, caller, order.actor), handed);
    if (!made) return refused('invalid_grant', NOT_MADE, { userId });
    logCreated(log, record, actorBy(caller, order));
    return ok(minted.value);
  };
