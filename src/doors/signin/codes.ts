// Creates and opens authorization codes of 32 random bytes. The store keeps a code's content under its SHA-256,
// encrypted with a key derived from the code: neither the database alone nor a code in a log alone reveals it.

import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock, RandomBytes, Sha256 } from '../../ground/runtime.ts';
import type { Caller } from '../../keys/actor.ts';
import type { KeyOrder } from '../../keys/minting.ts';
import type { CodeStore, FindCode } from './store.ts';

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

/** A code's content, or the id of the key that it was redeemed for before. */
type Opened = { readonly content: CodeContent } | { readonly takenFor: string };

export interface Codes {
  /** Stores the content, and resolves with its code. */
  seal(content: CodeContent, fairnessKey: string): Promise<Result<string, Problem>>;
  /** Resolves with the code's content. Null: it is no code of this database, or expired. */
  open(code: string, caller: Caller): Promise<Result<Opened | null, Problem>>;
}

/** The life of a code, enough for even a slow request of the client. */
const CODE_TTL_MS = 60_000;

/** Tolerates clocks of processes that differ by a minute. A clock that is set back further must not prolong a code. */
const CODE_LEFT_MS_MAX = 2 * CODE_TTL_MS;

const CODE_BYTES = 32;

const CODE = /^[\w-]{43}$/;

const ALPHABET = { alphabet: 'base64url', omitPadding: true } as const;

export interface CodesOptions {
  readonly store: CodeStore;
  readonly findCode: FindCode;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
}

export const makeCode = (random: RandomBytes): string => random(CODE_BYTES).toBase64(ALPHABET);

/** Returns the hash under which the store keeps a code; null if the text is no code. */
export const codeHash = (sha256: Sha256, code: string): string | null => (CODE.test(code) ? sha256(code, 'hex') : null);

export function createCodes({ store, findCode, clock, random, sha256 }: CodesOptions): Codes {
  return {
    async seal(content, fairnessKey) {
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
        newKeyOf: 'order' in content.handsOut ? content.handsOut.order.userId : null,
        fairnessKey,
      });
      return isPut ? ok(code) : err({ code: 'key_limit_reached' });
    },

    async open(code, caller) {
      const hash = codeHash(sha256, code);
      const found = hash === null ? ok(null) : await findCode(hash, caller);
      if (!found.ok || found.value === null) return found.ok ? ok(null) : found;
      const { content, endsAtMs, isTaken, isDevice, keyId } = found.value;
      if (isDevice) return ok(null);
      if (isTaken) return ok({ takenFor: keyId ?? '' });
      const leftMs = endsAtMs - clock.nowMs();
      if (leftMs <= 0 || leftMs > CODE_LEFT_MS_MAX) return ok(null);
      const text = await crypto.subtle.decrypt(AES_GCM, await keyOf(code), Uint8Array.fromBase64(content));
      return ok({ content: JSON.parse(new TextDecoder().decode(text)) }); // `seal` wrote it, so it has this shape
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
