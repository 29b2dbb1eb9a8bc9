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

/** One HS256 secret, which never changes. */
export function secretKey(secret: string): VerificationKeys {
  const bytes = new TextEncoder().encode(secret);
  const keys: JwtKeys = () => bytes;
  const always = () => ok(keys);
  return { algorithms: ['HS256'], current: () => keys, get: always, refreshedAfter: always };
}
