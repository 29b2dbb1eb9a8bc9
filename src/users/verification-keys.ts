// Defines the keys that verify user JWTs (a shared secret, or an issuer's key set, jwks.ts), and the outage of an issuer.

import type { JWTVerifyGetKey } from 'jose';
import type { Awaitable } from '../ground/result.ts';

/** Secrets, any of which may have signed, or what finds the key for a token's header. Other keys are another object. */
export type JwtKeys = readonly Uint8Array[] | JWTVerifyGetKey;

/** The source of keys. `get` and `refreshed` may throw an IssuerOutage. */
export interface VerificationKeys {
  readonly algorithms: readonly string[];
  /** Returns the cached keys; null if there are none, or they are too old. A verdict by other keys no longer counts. */
  current(): JwtKeys | null;
  get(): Awaitable<JwtKeys>;
  /** Returns the newest keys, for a token whose key was not among those that `get` returned. They may be the same. */
  refreshed(): Awaitable<JwtKeys>;
}

/** Keys as their source had them. */
export interface KeysOf {
  readonly source: VerificationKeys;
  readonly keys: JwtKeys;
}

export const JWT_SECRET_BYTES_MIN = 32; // HS256 needs a key at least as long as the hash (RFC 7518 §3.2)

/** Creates the keys of an HS256 secret, and of a previous one that is still accepted. */
export function secretKey(...secrets: readonly string[]): VerificationKeys {
  const keys = secrets.map((secret) => new TextEncoder().encode(secret));
  const always = () => keys;
  return { algorithms: ['HS256'], current: always, get: always, refreshed: always };
}

/** The issuer is out of reach, or what it publishes is unusable. This says nothing about any token. */
export class IssuerOutage extends Error {
  override name = 'IssuerOutage';

  constructor(
    readonly reason: string,
    /** The issuer that the metadata names instead: one of the two is misspelled, and no token will ever be accepted. */
    readonly otherIssuer: string | null = null,
  ) {
    super(reason);
  }
}

/** Returns the outage. Rethrows any other error, which is a bug. */
export function issuerOutageIn(error: unknown): IssuerOutage {
  if (error instanceof IssuerOutage) return error;
  throw error;
}
