// Grants leases: how long and for how many uses a service may remember an answer of /introspect, and which marks in
// /changes end it. src/api/README.md has the rules for services.

import { ownerChange } from '../../ground/change-feed.ts';
import { SHARED_WINDOW_S_MIN } from '../../ground/rate-limit.ts';
import type { KnownKey } from '../../keys/known-keys.ts';
import type { VerifiedKey } from '../../keys/verify.ts';
import { type Bound, type Holder, remainingOf } from '../../uses/holder.ts';
import type { Macs } from './marks.ts';
import type { RecentChanges } from './recent-changes.ts';
import { handleOf, type Reported } from './reported-uses.ts';
import type { ServicesOptions } from './service.ts';

/** The longest lease. Then services ask again, because the feed doesn't tell of keys that a primary has lost. */
const LEASE_MS_MAX = 300_000;

/** The part of a limit that a service may admit from memory. */
const LEASED_PART = 1 / 32;

/** Returns floor(L / 32), or what remains if that is less. A window that processes don't share has nothing to lend. */
const leasedOf = (bound: Bound): number =>
  bound.usage.window.windowS < SHARED_WINDOW_S_MIN
    ? 0
    : Math.min(Math.floor(bound.limit.requests * LEASED_PART), remainingOf(bound));

/** Returns the lease's fields of the response. `asked` is the key in question, which was just verified. */
type LeaseFieldsOf = (asked: VerifiedKey, callerKeyId: string) => object;

/** Returns the changes in the feed after which a key may have ended: of its secret or rule, its owner, its parent's secret. */
const endingsOf = ({ presentedHash, userId, parent }: KnownKey): readonly string[] => [
  presentedHash,
  ownerChange(userId),
  ...(parent === null ? [] : [parent.keyHash]),
];

export type BeginLease = ReturnType<typeof createLeases>;

/** Creates the function that begins a lease for a service with this cursor, before the key is verified. */
export function createLeases(
  recent: RecentChanges,
  macsNow: () => Promise<Macs>,
  reported: Reported,
  { feed, usage, ageClock }: ServicesOptions,
) {
  /** Returns what may be admitted for each holder of the key's limits, over all its keys together. Counts nothing. */
  const unitsOf = (holder: Holder, macs: Macs) =>
    usage
      .holdersOf(holder)
      .filter(({ bounds }) => bounds.length > 0)
      .map(({ kind, id, bounds }) => ({
        holder: macs.of('holder', `${kind} ${id}`),
        units: Math.min(...bounds.map(leasedOf)),
      }));

  /** Returns whether all changes since the cursor are in memory, so that a service learns each of them. */
  async function canFollowFrom(cursor: string, macs: Macs): Promise<boolean> {
    await recent.readBackTo(cursor, macs);
    return recent.stateOf(cursor, macs).is === 'known';
  }

  function leaseMsOf(endsAtMs: number | null): number {
    return endsAtMs === null ? LEASE_MS_MAX : Math.min(LEASE_MS_MAX, endsAtMs - ageClock.nowMs());
  }

  /**
   * All that is read from now on is at least as new as what this process has seen, so no remembered answer rests on an older
   * read. `arrivedAtMs` is the request's arrival, monotonic.
   */
  return async (cursor: string, arrivedAtMs: number): Promise<LeaseFieldsOf> => {
    const macs = await macsNow();
    const canFollow = await canFollowFrom(cursor, macs);
    return (asked, callerKeyId) => {
      const { id: keyId } = asked.holder;
      const units = unitsOf(asked.holder, macs);
      const leaseMs = canFollow && units.every(({ units }) => units > 0) ? leaseMsOf(asked.endsAtMs) : 0;
      reported.expect(keyId, asked.key.parent?.keyHash ?? asked.key.presentedHash);
      return {
        fresh_ms: Math.floor(asked.verifiedAtMs - arrivedAtMs),
        bound_ms: feed.boundMs,
        marks: endingsOf(asked.key).map((one) => macs.of('mark', one)),
        tell: handleOf(macs, callerKeyId, keyId),
        ...(leaseMs > 0 && { lease_ms: leaseMs }),
        lease_uses: units,
      };
    };
  };
}
