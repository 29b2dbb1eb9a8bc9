// Assembles the routes: /introspect and /changes, with the leases that services get, the marks by which they know keys,
// recent changes, and the uses that they report.

import type { VerifyKey } from '../../calls/api-key.ts';
import type { Guards } from '../../calls/guards.ts';
import type { Recheck } from '../../calls/proof.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { Signing } from '../../ground/signed-text.ts';
import type { Feed } from '../../keys/feed.ts';
import type { KeyStore } from '../../keys/store.ts';
import type { Verifier } from '../../keys/verify.ts';
import type { Usage } from '../../uses/usage.ts';
import type { Log } from '../../watch/log.ts';
import { changesRoute } from './changes.ts';
import { introspectRoute } from './introspect.ts';
import { createLeases } from './lease.ts';
import { createMacs } from './marks.ts';
import { RecentChanges } from './recent-changes.ts';
import { createCountUsed } from './reported.ts';
import { createReportedUses } from './reported-uses.ts';
import type { ServiceRoute } from './service.ts';

export interface ServicesOptions {
  readonly feed: Feed;
  readonly store: KeyStore;
  readonly verifier: Verifier;
  readonly usage: Usage;
  /** Verifies the key of a service, and the one that it asks about. */
  readonly verifyKey: VerifyKey;
  readonly guards: Guards;
  readonly recheck: Recheck;
  /** Returns the secret of marks and cursors, and whose database it is. */
  readonly signing: (use: 'client_id') => Signing;
  /** The feed's clock, which also counts while the machine sleeps. */
  readonly ageClock: Clock;
  readonly log: Log;
}

export function servicesRoutes(options: ServicesOptions): Readonly<Record<'introspect' | 'changes', ServiceRoute>> {
  const { feed, usage, signing, ageClock, log } = options;
  const macs = createMacs(signing('client_id'));
  const recent = new RecentChanges(options);
  const reportedUses = createReportedUses(options);
  const leases = createLeases({ feed, recent, macs, reportedUses, leasesOf: usage.leasesOf, ageClock });
  const countUsed = createCountUsed({ reportedUses, macs, clock: ageClock, log });
  return {
    introspect: introspectRoute(leases, countUsed, options),
    changes: changesRoute(recent, macs, countUsed, options),
  };
}
