// The keys that user JWTs are verified with, wherever they come from: a shared secret, or an issuer's key set (key-set.ts).

import type { JWTVerifyGetKey } from 'jose';
import { type Awaitable, ok, type Problem, type Result } from '../problem.ts';

/** The keys can't be had now. It says nothing about any token. */
export type KeysUnavailable = Extract<Problem, { code: 'auth_unavailable' }>;

/** Finds the key for a token's header. Its identity is its version: other keys are another function. */
export type Keys = JWTVerifyGetKey;

export interface SigningKeys {
  /** What a token's `alg` may be. */
  readonly algorithms: readonly string[];
  /** The keys that count at this moment, or null when they are not known. What was decided with others counts no more. */
  inForce(): Keys | null;
  /** The same, fetched where they are not known. */
  get(): Awaitable<Result<Keys, KeysUnavailable>>;
  /** For a token that `seen` holds no key for: the keys as they are now, which may be `seen` still. */
  newerThan(seen: Keys): Awaitable<Result<Keys, KeysUnavailable>>;
}

/** One HS256 secret for good. */
export function secretKey(secret: string): SigningKeys {
  const bytes = new TextEncoder().encode(secret);
  const keys: Keys = () => bytes;
  const always = () => ok(keys);
  return { algorithms: ['HS256'], inForce: () => keys, get: always, newerThan: always };
}
