// Returns the uses of keys and owners that people see: today's and those of the last 30 days (UTC), and what is left of a
// quota, over all processes: this one's up to now, the others' as last written.

import { dayAt, monthOf } from '../ground/limits/rates.ts';
import type { Quota } from '../ground/rate-limit.ts';
import type { Clock } from '../ground/runtime.ts';
import { type Holder, unitsIn } from './holder.ts';
import type { Days, UsesStore } from './store.ts';

const DAYS_SHOWN = 30;

export interface Uses {
  readonly today: number;
  /** At most 30 numbers, today first, without trailing zeros. */
  readonly last30Days: readonly number[];
}

/** A quota with the units that are left of it in this period. */
export interface ShownQuota extends Quota {
  readonly remaining: number;
}

/** What was used of a key. */
export interface Used {
  /** The uses of 30 days; null: none. */
  readonly uses: Uses | null;
  readonly leftOf: (quota: Quota) => ShownQuota;
}

/** What was used of an owner's keys. */
export interface OwnerUsed {
  /** The sum over the keys that are there. */
  readonly uses: Uses;
  /** Returns what is left of a quota of all keys together, which counts deleted keys, too. */
  readonly leftOf: (quota: Quota) => ShownQuota;
}

/** What this process knows of holders beyond what the database has. */
interface KnownUses {
  readonly key: (keyId: string) => Holder | undefined;
  readonly owner: (owner: string) => Holder | undefined;
  /** Returns the keys of these owners with uses that the database may lack. */
  readonly unsent: (owners: ReadonlySet<string>) => ReadonlySet<Holder>;
}

/** What a process without holders of its own knows. */
export const NOTHING_KNOWN: KnownUses = { key: () => undefined, owner: () => undefined, unsent: () => new Set() };

/** The days (UTC) whose uses are shown, or count against a quota. */
interface Shown {
  readonly today: number;
  readonly monthFirst: number;
  readonly first: number;
}

function shownAt(nowMs: number): Shown {
  const today = dayAt(nowMs);
  const monthFirst = monthOf(today).first;
  return { today, monthFirst, first: Math.min(today - DAYS_SHOWN + 1, monthFirst) };
}

export interface OwnerWithKeys {
  readonly owner: string;
  /** How many keys there are. */
  readonly keys: number;
}

export const createShownUses = (store: UsesStore, clock: Clock, known: KnownUses) => ({
  /** Returns what was used of keys, by their ids. */
  async usesOf(keyIds: readonly string[]): Promise<(keyId: string) => Used> {
    const shown = shownAt(clock.nowMs());
    const stored = keyIds.length === 0 ? null : (await store.usesByDay({ keyIds }, shown.first)).key;
    const used = new Map(keyIds.map((id) => [id, merged(stored?.get(id), known.key(id))]));
    return (keyId) => {
      const days = used.get(keyId) ?? NO_DAYS;
      const uses = usesIn(days, shown);
      return { uses: uses.last30Days.length === 0 ? null : uses, leftOf: leftIn(days, shown) };
    };
  },

  /** Returns what was used of owners' keys, by the owners' names; one statement reads it. */
  async usesOfOwners(owners: readonly OwnerWithKeys[]): Promise<(owner: string) => OwnerUsed> {
    const shown = shownAt(clock.nowMs());
    const names = owners.map(({ owner }) => owner);
    const unsent = known.unsent(new Set(names));
    const keyIds = [...unsent].map(({ id }) => id);
    const ownersKeys = owners.reduce((sum, { keys }) => sum + keys, 0);
    const stored = await store.usesByDay({ keyIds, owners: names, ownersKeys }, shown.first);
    const unsentOf = Map.groupBy(unsent, ({ userId }) => userId);
    return (owner) => {
      const sums = new Map(stored.keys.get(owner));
      for (const key of unsentOf.get(owner) ?? []) addUnsent(sums, key, stored.key.get(key.id));
      const counted = merged(stored.owner.get(owner), known.owner(owner));
      return { uses: usesIn(sums, shown), leftOf: leftIn(counted, shown) };
    };
  },
});

/** Adds what this process knows of a key beyond what is stored of it. */
function addUnsent(sums: Map<number, number>, key: Holder, stored: Days | undefined): void {
  if (stored === undefined) return; // the key is gone
  for (const [day, units] of merged(stored, key)) {
    sums.set(day, (sums.get(day) ?? 0) + units - (stored.get(day) ?? 0));
  }
}

const NO_DAYS: Days = new Map();

/** Merges the units of this process into what is stored. */
function merged(stored: Days | undefined, holder: Holder | undefined): Days {
  const days = new Map(stored);
  for (const usage of holder?.days ?? []) {
    const { first: day } = usage.window;
    // What was sent may be stored already; what is pending is not.
    days.set(day, Math.max((days.get(day) ?? 0) + usage.pending, unitsIn(usage)));
  }
  return days;
}

function usesIn(days: Days, { today }: Shown): Uses {
  const last30Days = Array.from({ length: DAYS_SHOWN }, (_, ago) => days.get(today - ago) ?? 0);
  const oldest = last30Days.findLastIndex((count) => count > 0);
  return { today: last30Days[0] ?? 0, last30Days: last30Days.slice(0, oldest + 1) };
}

const leftIn =
  (days: Days, { today, monthFirst }: Shown) =>
  (quota: Quota): ShownQuota => {
    const first = quota.period === 'day' ? today : monthFirst;
    let used = 0;
    for (const [day, units] of days) if (day >= first && day <= today) used += units;
    return { ...quota, remaining: Math.max(0, quota.requests - used) };
  };
