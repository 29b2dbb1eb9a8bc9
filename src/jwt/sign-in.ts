// Where the visitors of the page /keys sign in: the issuer's endpoints, kept for a while.

import type { Clock } from '../lib/runtime.ts';
import { singleFlight } from '../lib/single-flight.ts';
import type { Log } from '../log/log.ts';
import { createOutageLog } from '../log/outage.ts';
import { discoverSignIn, type SignInEndpoints } from './discovery.ts';

/** Short, because it is also how long the page offers a sign-in at an issuer that is away. */
const ENDPOINTS_TTL_MS = 60_000;
/** Nobody waits anew for an issuer that has just not responded. */
const FAILURE_PAUSE_MS = 5000;

/** Null while the issuer is out of reach. */
export type FindSignIn = () => Promise<SignInEndpoints | null>;

export function createFindSignIn(issuer: string, clock: Clock, log: Log): FindSignIn {
  const outage = createOutageLog(log, { on: 'issuer out of reach', off: 'issuer back' });
  let found: SignInEndpoints | null = null;
  let goodUntilMs = Number.NEGATIVE_INFINITY;

  const looking = singleFlight(async () => {
    const discovered = await discoverSignIn(issuer, clock);
    if (discovered.ok) outage.ended();
    else outage.began(discovered.error.reason);
    found = discovered.ok ? discovered.value : null;
    goodUntilMs = clock.monotonicMs() + (discovered.ok ? ENDPOINTS_TTL_MS : FAILURE_PAUSE_MS);
    return found;
  });

  return async () => (clock.monotonicMs() < goodUntilMs ? found : looking.run());
}
