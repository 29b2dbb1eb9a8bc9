// Grants leases: how long and for how many uses a service may remember an answer of /introspect, and which marks in
// /changes end it. src/api/README.md has the rules for services.

import type { Clock, Sha256 } from '../../ground/runtime.ts';
import type { Feed } from '../../keys/feed.ts';
import { countedKeyId, hashKey } from '../../keys/record.ts';
import type { Usage } from '../../uses/usage.ts';
import { type Macs, markOf, ownerChange } from './marks.ts';
import type { RecentChanges } from './recent-changes.ts';
import { handleOf } from './reported.ts';
import type { ReportedUses } from './reported-uses.ts';
import type { ServiceCall } from './service.ts';

/** The longest lease. Then services ask again, because the feed doesn't tell of keys that a primary has lost. */
const LEASE_MS_MAX = 300_000;

export interface LeasesOptions {
  readonly feed: Feed;
  readonly recent: RecentChanges;
  readonly macs: () => Promise<Macs>;
  readonly reportedUses: Pick<ReportedUses, 'expect'>;
  readonly leasesOf: Usage['leasesOf'];
  /** The feed's clock. */
  readonly ageClock: Clock;
  readonly sha256: Sha256;
}

/** Returns the lease's fields of the response. `asked` is the call of the key in question, which was just verified. */
type LeaseFieldsOf = (asked: ServiceCall, callerKeyId: string) => object;

export type Leases = ReturnType<typeof createLeases>;

export function createLeases({ feed, recent, macs, reportedUses, leasesOf, ageClock, sha256 }: LeasesOptions) {
  /**
   * Returns the changes in the feed after which a call's key may have ended: of its secret or rule, its owner, its parent's
   * secret.
   */
  const restsOn = ({
    auth,
    rule,
    parentHash,
  }: Pick<ServiceCall, 'auth' | 'rule' | 'parentHash'>): readonly string[] => [
    rule?.hash ?? hashKey(sha256, auth.token),
    ownerChange(auth.subject),
    ...(parentHash === null ? [] : [parentHash]),
  ];

  /**
   * Begins a lease for a service with this cursor, before the key is verified. All that is read from now on is at least
   * as new as what this process has seen, so no remembered answer rests on an older read. `arrivedAtMs` is the
   * request's arrival, monotonic.
   */
  async function begin(cursor: string, arrivedAtMs: number): Promise<LeaseFieldsOf> {
    if (!feed.current()) await feed.ensureFresh();
    const codes = await macs();
    const hasSeen = await hasSeenAll(cursor, codes);
    return (asked, callerKeyId) => {
      const keyId = countedKeyId(asked.auth);
      const units = leasesOf(keyId).map(({ holder: { kind, id }, units }) => ({
        holder: codes.of('holder', `${kind} ${id}`),
        units,
      }));
      const leaseMs = hasSeen && units.every(({ units }) => units > 0) ? leaseMsOf(asked) : 0;
      const changed = restsOn(asked);
      reportedUses.expect(keyId, asked.parentHash ?? changed[0] ?? '');
      return {
        fresh_ms: Math.floor(asked.provedAtMs - arrivedAtMs),
        bound_ms: feed.boundMs,
        marks: changed.map((one) => markOf(codes, one)),
        tell: handleOf(codes, callerKeyId, keyId),
        ...(leaseMs > 0 && { lease_ms: leaseMs }),
        lease_uses: units,
      };
    };
  }

  async function hasSeenAll(cursor: string, codes: Macs): Promise<boolean> {
    if (cursor === '') return false;
    await recent.readBackTo(cursor, codes);
    return recent.stateOf(cursor, codes).is === 'known';
  }

  /** Returns how long the lease lasts from now on, in milliseconds. */
  function leaseMsOf({ keyEndsAtMs }: ServiceCall): number {
    return keyEndsAtMs === null ? LEASE_MS_MAX : Math.min(LEASE_MS_MAX, keyEndsAtMs - ageClock.nowMs());
  }

  return { begin };
}
