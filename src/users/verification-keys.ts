// The keys that user JWTs are verified with: a shared secret, or an issuer's key set (jwks.ts).

import type { JWTVerifyGetKey } from 'jose';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, ok, type Result } from '../ground/result.ts';

/** The keys can't be fetched now. Says nothing about any token. */
export type KeysUnavailable = Extract<Problem, { code: 'auth_unavailable' }>;

/** Finds the key for a token's header, as jose takes it. Different keys are a different function. */
export type JwtKeys = JWTVerifyGetKey;

export interface VerificationKeys {
  readonly algorithms: readonly string[];
  /** Null when the keys are not known, or too old. A verdict reached with other keys no longer counts. */
  current(): JwtKeys | null;
  get(): Awaitable<Result<JwtKeys, KeysUnavailable>>;
  /** The current keys, for a token whose key `seen` lacks. They may still be `seen`. */
  refreshedAfter(seen: JwtKeys): Awaitable<Result<JwtKeys, KeysUnavailable>>;
}

/** An HS256 secret, and one accepted beside it while secrets are exchanged. */
export function secretKey(secret: string, previous: string | null = null): VerificationKeys {
  const bytes = new TextEncoder().encode(secret);
  const keys = previous === null ? () => bytes : eitherOf(bytes, new TextEncoder().encode(previous));
  const always = () => ok(keys);
  return { algorithms: ['HS256'], current: () => keys, get: always, refreshedAfter: always };
}

/** Throws jose's error for several matching keys, so that check-token.ts tries each. */
const eitherOf =
  (...keys: readonly Uint8Array[]): JwtKeys =>
  async () => {
    const { JWKSMultipleMatchingKeys } = await import('jose/errors'); // loaded by check-token.ts already
    throw Object.assign(new JWKSMultipleMatchingKeys(), {
      async *[Symbol.asyncIterator]() {
        yield* keys;
      },
    });
  };
