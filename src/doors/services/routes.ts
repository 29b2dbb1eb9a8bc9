// Assembles the routes: /introspect and /changes, with the leases that services get, the marks by which they know keys,
// recent changes, and the uses that they report.

import type { BodyHandler } from '../../web/router.ts';
import { changesRoute } from './changes.ts';
import { introspectRoute } from './introspect.ts';
import { createLeases } from './lease.ts';
import { createMacs } from './marks.ts';
import { RecentChanges } from './recent-changes.ts';
import { createReported } from './reported-uses.ts';
import type { ServicesOptions } from './service.ts';

export function servicesRoutes(options: ServicesOptions): Readonly<Record<'introspect' | 'changes', BodyHandler>> {
  const macsNow = createMacs(options.signing('client_id'));
  const recent = new RecentChanges(options);
  const reported = createReported(macsNow, options);
  return {
    introspect: introspectRoute(createLeases(recent, macsNow, reported, options), reported, options),
    changes: changesRoute(recent, macsNow, reported, options),
  };
}
