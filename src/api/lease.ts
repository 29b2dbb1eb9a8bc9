// What the answer of /introspect has beside RFC 7662 for a service that remembers it: for how long, for how many uses, and
// by which marks it is told that the answer has ended. The rules that a service keeps are in README.md.

import type { Clock, Sha256 } from '../ground/runtime.ts';
import { countedKeyId } from '../keys/child.ts';
import type { Feed } from '../keys/feed.ts';
import { type Macs, markOf, ownerChange } from '../keys/marks.ts';
import type { RecentChanges } from '../keys/recent-changes.ts';
import { hashKey } from '../keys/record.ts';
import type { ToldUses } from '../keys/told.ts';
import type { Usage } from '../uses/usage.ts';
import type { ServiceCall } from './service.ts';
import { tellOf } from './told.ts';

/** The longest lease. Services ask again after it, because the feed says nothing of keys that a primary has lost. */
const LEASE_MS_MAX = 300_000;

export interface LeasesOptions {
  readonly feed: Feed;
  readonly recent: RecentChanges;
  readonly macs: () => Promise<Macs>;
  readonly toldUses: Pick<ToldUses, 'expect'>;
  readonly leasesOf: Usage['leasesOf'];
  /** The clock of the feed. */
  readonly ageClock: Clock;
  readonly sha256: Sha256;
}

/**
 * Returns the fields that the response has. `asked` is the call of the key that was asked about, as it was just
 * verified.
 */
type MembersOf = (asked: ServiceCall, callerKeyId: string) => object;

export type Leases = ReturnType<typeof createLeases>;

export function createLeases({ feed, recent, macs, toldUses, leasesOf, ageClock, sha256 }: LeasesOptions) {
  /**
   * Returns what the change feed names when the key of a call may have ended: its secret, its owner, its parent's
   * secret.
   */
  const restsOn = ({ auth, parentHash }: Pick<ServiceCall, 'auth' | 'parentHash'>): readonly string[] => [
    hashKey(sha256, auth.token),
    ownerChange(auth.subject),
    ...(parentHash === null ? [] : [parentHash]),
  ];

  /**
   * Begins an answer to a service with this cursor, before the key is looked at. What is looked at from now on is as new
   * as all that this process has seen: so an answer that can be remembered has nothing of an older read.
   * `arrivedAtMs`: when the question came, monotonic.
   */
  async function begin(cursor: string, arrivedAtMs: number): Promise<MembersOf> {
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
      toldUses.expect(keyId, asked.parentHash ?? changed[0] ?? '');
      return {
        fresh_ms: Math.floor(asked.provedAtMs - arrivedAtMs),
        bound_ms: feed.boundMs,
        marks: changed.map((one) => markOf(codes, one)),
        tell: tellOf(codes, callerKeyId, keyId),
        ...(leaseMs > 0 && { lease_ms: leaseMs }),
        lease_uses: units,
      };
    };
  }

  async function hasSeenAll(cursor: string, codes: Macs): Promise<boolean> {
    if (cursor === '') return false;
    await recent.reach(cursor, codes);
    return recent.standingOf(cursor, codes).is === 'seen';
  }

  /** Returns the lease's milliseconds from now on, which is later than when it was asked for. */
  function leaseMsOf({ keyEndsAtMs }: ServiceCall): number {
    return keyEndsAtMs === null ? LEASE_MS_MAX : Math.min(LEASE_MS_MAX, keyEndsAtMs - ageClock.nowMs());
  }

  return { begin, restsOn };
}
