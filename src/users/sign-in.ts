// Finds and caches the issuer's endpoints, where visitors of the page /keys sign in.

import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { createOutageLog } from '../watch/outage.ts';
import { createIssuerCache, discoverSignIn, issuerOutageIn, type SignInEndpoints } from './discovery.ts';

/** The page may offer a sign-in at an issuer that is down for this long. */
const ENDPOINTS_TTL_MS = 60_000;
/** The negative cache: visitors don't wait again for an issuer that just didn't respond. */
const FAILURE_PAUSE_MS = 5000;

/** Resolves with the issuer's endpoints, or null while it is out of reach. */
export type FindSignIn = () => Promise<SignInEndpoints | null>;

export function createFindSignIn(issuer: string, clock: Clock, log: Log): FindSignIn {
  const outage = createOutageLog(log, { on: 'issuer out of reach', off: 'issuer back' });
  const cache = { ttlMs: ENDPOINTS_TTL_MS, pauseMs: FAILURE_PAUSE_MS, clock, outage };
  const { current, refresh } = createIssuerCache(() => discoverSignIn(issuer, clock), cache);
  return async () => current() ?? refresh().catch(nothing);
}

function nothing(error: unknown): null {
  issuerOutageIn(error);
  return null;
}
