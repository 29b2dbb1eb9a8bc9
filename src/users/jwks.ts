// Caches an issuer's key set (RFC 7517). discovery.ts fetches it on first use, when it is stale, and for a token whose
// key it lacks.

import type { JSONWebKeySet } from 'jose';
import { createLocalJWKSet } from 'jose/jwks/local';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { createOutageLog } from '../watch/outage.ts';
import { createIssuerCache } from './discovery.ts';
import { IssuerOutage, type JwtKeys, type VerificationKeys } from './verification-keys.ts';

/** Public-key signatures only: with HS256 here, a public key could serve as a shared secret (RFC 8725 §2.1). */
export const ASYMMETRIC = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ');

/** A key that the issuer removes is accepted for at most this long; while no set can be fetched, for `lastsMs`. */
const JWKS_TTL_MS = 5 * 60_000;
/** The least time between fetches for unknown keys: made-up `kid`s must not put load on the issuer. */
const COOLDOWN_MS = 10_000;
/** Back-off after a failed fetch. */
const FAILURE_PAUSE_MS = 1000;

interface JwksOptions {
  /** Loads the set. Throws an IssuerOutage. */
  readonly load: () => Promise<JSONWebKeySet>;
  readonly clock: Clock;
  readonly log: Log;
  /** The issuer, where there may be several; it is named in the log. */
  readonly issuer?: string;
  readonly pauseMs?: number;
  /** Up to which age a set is used while none can be fetched; by default no longer than JWKS_TTL_MS. */
  readonly lastsMs?: number;
}

export function createJwks(options: JwksOptions): VerificationKeys {
  const { load, clock, log, issuer, pauseMs = FAILURE_PAUSE_MS, lastsMs } = options;
  let last: { readonly keys: JwtKeys; readonly json: string } | undefined;
  let refetchedAtMs = Number.NEGATIVE_INFINITY; // the last fetch for an unknown key that succeeded

  async function loadKeys(): Promise<JwtKeys> {
    const set = await load();
    const json = JSON.stringify(set);
    if (json !== last?.json) last = { keys: keysOf(set), json }; // an unchanged set keeps cached verdicts valid
    return last.keys;
  }

  const eachReason = issuer === undefined; // a rule's issuer has one line
  const outage = createOutageLog(log, { on: 'key set out of reach', off: 'key set back', eachReason, issuer });
  const cache = createIssuerCache(loadKeys, { ttlMs: JWKS_TTL_MS, pauseMs, lastsMs, clock, outage });
  const { current, refresh, get } = cache;

  return {
    algorithms: ASYMMETRIC,
    current,
    get,
    async refreshed() {
      const keys = current();
      if (keys !== null && clock.monotonicMs() - refetchedAtMs < COOLDOWN_MS) return keys;
      const refreshed = await refresh();
      refetchedAtMs = clock.monotonicMs();
      return refreshed;
    },
  };
}

/** Returns the keys of a set. Throws an IssuerOutage if it is none. */
export function keysOf(set: JSONWebKeySet): JwtKeys {
  try {
    return createLocalJWKSet(set);
  } catch {
    throw new IssuerOutage('the key set is not a JSON Web Key Set');
  }
}
