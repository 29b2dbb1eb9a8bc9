// Caches an issuer's key set (RFC 7517). discovery.ts fetches it on first use, when it is stale, and for a token whose
// key it lacks.

import type { JSONWebKeySet } from 'jose';
import { createLocalJWKSet } from 'jose/jwks/local';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { createOutageLog } from '../watch/outage.ts';
import { createIssuerCache, IssuerOutage, type LoadJwks } from './discovery.ts';
import type { JwtKeys, VerificationKeys } from './verification-keys.ts';

/** Public-key signatures only: with HS256 here, a public key could serve as a shared secret (RFC 8725 §2.1). */
const ASYMMETRIC = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ');

/** A key that the issuer removes is accepted for at most this long. */
const JWKS_TTL_MS = 5 * 60_000;
/** The least time between fetches for unknown keys: made-up `kid`s must not put load on the issuer. */
const COOLDOWN_MS = 10_000;
/** Back-off after a failed fetch. */
const FAILURE_PAUSE_MS = 1000;

export function createJwks({ load, clock, log }: { load: LoadJwks; clock: Clock; log: Log }): VerificationKeys {
  let last: { readonly keys: JwtKeys; readonly json: string } | undefined;
  let refetchedAtMs = Number.NEGATIVE_INFINITY; // the last fetch for an unknown key that succeeded

  async function loadKeys(): Promise<JwtKeys> {
    const set = await load();
    const json = JSON.stringify(set);
    if (json !== last?.json) last = { keys: keysOf(set), json }; // an unchanged set keeps cached verdicts valid
    return last.keys;
  }

  const outage = createOutageLog(log, { on: 'key set out of reach', off: 'key set back' });
  const cache = { ttlMs: JWKS_TTL_MS, pauseMs: FAILURE_PAUSE_MS, clock, outage };
  const { current, refresh } = createIssuerCache(loadKeys, cache);

  return {
    algorithms: ASYMMETRIC,
    current,
    get: () => current() ?? refresh(),
    async refreshedAfter(seen) {
      const keys = current();
      if (keys !== null && (keys !== seen || clock.monotonicMs() - refetchedAtMs < COOLDOWN_MS)) return keys;
      const refreshed = await refresh();
      refetchedAtMs = clock.monotonicMs();
      return refreshed;
    },
  };
}

function keysOf(set: JSONWebKeySet): JwtKeys {
  try {
    return createLocalJWKSet(set);
  } catch {
    throw new IssuerOutage('the key set is not a JSON Web Key Set');
  }
}
