// Authorization codes: 32 random bytes each. The store keeps what a code stands for under its SHA-256, encrypted with
// a key that only the code gives: neither the database nor a code in somebody's log opens anything alone.

import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock, RandomBytes, Sha256 } from '../ground/runtime.ts';
import type { Caller } from '../keys/actor.ts';
import type { KeyOrder } from '../keys/minting.ts';
import type { CodeStore } from '../keys/store.ts';
import type { FindCode } from '../keys/unknown-keys.ts';

export interface CodeContent {
  /** A key that was pasted, or one to make. */
  readonly handsOut: { readonly key: string } | { readonly order: KeyOrder };
  /** SHA-256 of the client's id. */
  readonly client: string;
  /** The challenge of PKCE (RFC 7636), method S256. */
  readonly challenge: string;
  readonly redirectUri: string;
  /** The server that the key is for, by its stored name (keys/audience.ts). */
  readonly resource: string;
}

/** What a code stands for, or the id of the key that was handed out for it before. */
type Opened = { readonly content: CodeContent } | { readonly takenFor: string };

export interface Codes {
  /** Stores the content, and resolves with its code. */
  seal(content: CodeContent, fairnessKey: string): Promise<Result<string, Problem>>;
  /** Resolves with what the code stands for. Null: it is no code of this database, or too old. */
  open(code: string, caller: Caller): Promise<Result<Opened | null, Problem>>;
}

/** The life of a code. It is enough for the client's one request, even a slow one. */
const CODE_TTL_MS = 60_000;

/** Clocks of processes may differ by a minute. One that is set back further must not prolong a code. */
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

/** Returns the hash by which the store knows a code; null: it is no code. */
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
      return ok({ content: JSON.parse(new TextDecoder().decode(text)) }); // sealed here, so of this shape
    },
  };
}

/** A code seals once, so the nonce may be the same for all (NIST SP 800-38D §8.2). */
const AES_GCM = { name: 'AES-GCM', iv: new Uint8Array(12) };

/** Derives the key that seals a code's content. It differs from the hash, which anybody who has the database knows. */
async function keyOf(code: string): Promise<CryptoKey> {
  const base = await crypto.subtle.importKey('raw', new TextEncoder().encode(code), 'HKDF', false, ['deriveKey']);
  const hkdf = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: new TextEncoder().encode('code') };
  return crypto.subtle.deriveKey(hkdf, base, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']);
}
