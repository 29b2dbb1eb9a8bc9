// The keys that user JWTs are verified with: a shared secret, or an issuer's key set (jwks.ts).

import type { JWTVerifyGetKey } from 'jose';
import { type Awaitable, ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';

/** The keys can't be had now. This says nothing about any token. */
export type KeysUnavailable = Extract<Problem, { code: 'auth_unavailable' }>;

/**
 * The keys as jose takes them: a function that finds the key for a token's header. Different keys are a different
 * function.
 */
export type JwtKeys = JWTVerifyGetKey;

export interface VerificationKeys {
  /** What a token's `alg` may be. */
  readonly algorithms: readonly string[];
  /** The keys in force now, or null when they are not known. A verdict reached with other keys no longer counts. */
  current(): JwtKeys | null;
  /** The keys in force, fetched when they are not known. */
  get(): Awaitable<Result<JwtKeys, KeysUnavailable>>;
  /** The current keys, for a token whose key `seen` lacks. They may still be `seen`. */
  refreshedAfter(seen: JwtKeys): Awaitable<Result<JwtKeys, KeysUnavailable>>;
}

/** An HS256 secret, and one that is accepted beside it while secrets are exchanged. Neither changes. */
export function secretKey(secret: string, previous: string | null = null): VerificationKeys {
  const bytes = new TextEncoder().encode(secret);
  const keys = previous === null ? () => bytes : eitherOf(bytes, new TextEncoder().encode(previous));
  const always = () => ok(keys);
  return { algorithms: ['HS256'], current: () => keys, get: always, refreshedAfter: always };
}

/** Has each key tried in turn, as jose does for a token that several keys of a key set fit. */
const eitherOf =
  (...keys: readonly Uint8Array[]): JwtKeys =>
  async () => {
    const { JWKSMultipleMatchingKeys } = await import('jose/errors'); // loaded by claims.ts already
    throw Object.assign(new JWKSMultipleMatchingKeys(), {
      async *[Symbol.asyncIterator]() {
        yield* keys;
      },
    });
  };
