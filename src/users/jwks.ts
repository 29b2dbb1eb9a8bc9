// An issuer's key set (RFC 7517), cached. Fetched (by discovery.ts) at first use, when it is old, and for a token whose
// key it lacks; callers share one fetch. Ages come from the clock; there are no timers.

import type { JSONWebKeySet } from 'jose';
import { createLocalJWKSet } from 'jose/jwks/local';
import { type Awaitable, err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { singleFlight } from '../ground/single-flight.ts';
import type { Log } from '../watch/log.ts';
import { createOutageLog } from '../watch/outage.ts';
import type { JwtKeys, KeysUnavailable, VerificationKeys } from './verification-keys.ts';

/** Public-key signatures only: with HS256 here, a public key could serve as a shared secret (RFC 8725 §2.1). */
const ASYMMETRIC = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ');

/** A key that left the issuer's set is accepted for at most this long. */
const JWKS_TTL_MS = 5 * 60_000;
/** Between fetches for unknown keys: made-up `kid`s must not load the issuer. */
const COOLDOWN_MS = 10_000;
/** Back-off after a failed fetch. */
const FAILURE_PAUSE_MS = 1000;

export type LoadJwks = () => Promise<Result<JSONWebKeySet, KeysUnavailable>>;

export function createJwks({ load, clock, log }: { load: LoadJwks; clock: Clock; log: Log }): VerificationKeys {
  let cached: { readonly keys: JwtKeys; readonly json: string; readonly fetchedAtMs: number } | undefined;
  let failed: { readonly problem: KeysUnavailable; readonly atMs: number } | undefined;
  const outage = createOutageLog(log, { on: 'key set out of reach', off: 'key set back' });
  let soughtAtMs = Number.NEGATIVE_INFINITY; // the last fetch for an unknown key that succeeded

  const ageOf = (atMs: number) => clock.monotonicMs() - atMs;

  function refresh(): Awaitable<Result<JwtKeys, KeysUnavailable>> {
    const isIdle = fetching.underWay === undefined;
    if (isIdle && failed !== undefined && ageOf(failed.atMs) < FAILURE_PAUSE_MS) return err(failed.problem);
    return fetching.run();
  }

  /** A set's age counts from the start of its fetch. If the machine slept meanwhile, it may be too old at once. */
  const fetching = singleFlight(async () => {
    for (;;) {
      const startedAtMs = clock.monotonicMs();
      const taken = take(await load(), startedAtMs);
      if (!taken.ok || ageOf(startedAtMs) < JWKS_TTL_MS) return taken;
    }
  });

  function take(loaded: Result<JSONWebKeySet, KeysUnavailable>, fetchedAtMs: number): Result<JwtKeys, KeysUnavailable> {
    const usable = loaded.ok ? keysOf(loaded.value) : loaded;
    if (!usable.ok) {
      outage.began(usable.error.reason);
      failed = { problem: usable.error, atMs: clock.monotonicMs() };
      return usable;
    }
    outage.ended();
    failed = undefined;
    const { json } = usable.value;
    const keys = json === cached?.json ? cached.keys : usable.value.keys; // an unchanged set keeps its verdicts
    cached = { keys, json, fetchedAtMs };
    return ok(keys);
  }

  function current(): JwtKeys | null {
    return cached !== undefined && ageOf(cached.fetchedAtMs) < JWKS_TTL_MS ? cached.keys : null;
  }

  return {
    algorithms: ASYMMETRIC,
    current,
    get() {
      const keys = current();
      return keys === null ? refresh() : ok(keys);
    },
    async refreshedAfter(seen) {
      const keys = current();
      if (keys !== null && (keys !== seen || ageOf(soughtAtMs) < COOLDOWN_MS)) return ok(keys);
      const refreshed = await refresh();
      if (refreshed.ok) soughtAtMs = clock.monotonicMs();
      return refreshed;
    },
  };
}

function keysOf(set: JSONWebKeySet): Result<{ keys: JwtKeys; json: string }, KeysUnavailable> {
  try {
    return ok({ keys: createLocalJWKSet(set), json: JSON.stringify(set) });
  } catch {
    return err({ code: 'auth_unavailable', reason: 'the key set is not a JSON Web Key Set' });
  }
}
