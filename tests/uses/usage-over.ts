// The uses of keys in this process alone, over a store that tests stand in for.

import { StoreOutage } from '../../src/ground/result.ts';
import { createLog, systemRandom } from '../../src/start/package/index.ts';
import type { Holder } from '../../src/uses/holder.ts';
import type { ExchangedUses, UsesStore } from '../../src/uses/store.ts';
import { createUsage } from '../../src/uses/usage.ts';
import type { LogWrite } from '../../src/watch/log.ts';
import { testClock } from '../support/clock.ts';
import { NO_OWNER_LIMITS } from './shared-usage.ts';

export const keyOf = (id: string, createdAtMs = 0) => ({ id, createdAtMs });
export const AWAY = new StoreOutage('away');

export type { ExchangedUses };

type LastUses = readonly (readonly [keyId: string, usedAtMs: number])[];

export const lastUsesIn = (windows: ExchangedUses['windows']): LastUses =>
  windows.flatMap(([id, , , , , , usedAtMs]) => (id === null || usedAtMs === null ? [] : [[id, usedAtMs] as const]));

/** Creates it over a store that is told of last uses in exchanges, and of nothing else unless it is in `more`. */
export function usageOver(
  recordLastUses: (lastUses: LastUses) => Promise<void>,
  write: LogWrite = async () => {},
  more: Partial<UsesStore> = {},
) {
  const clock = testClock();
  const log = createLog({ level: 'info', clock, write });
  const addUses = ({ windows }: ExchangedUses) => recordLastUses(lastUsesIn(windows));
  const store: UsesStore = {
    usesPerWrite: 250,
    addUses,
    totalsOf: async () => [],
    usesByDay: async () => ({ key: new Map(), keys: new Map(), owner: new Map() }),
    ...more,
  };
  const limits = { keyDefaults: { rateLimit: null, quota: null }, ...NO_OWNER_LIMITS };
  const usage = createUsage({ store, clock, random: systemRandom, log, ...limits });
  const holders = new Map<string, Holder>();
  /** As the cache of keys does, of a key that was never used. */
  function holderOf({ id, createdAtMs }: ReturnType<typeof keyOf>): Holder {
    const known = holders.get(id);
    if (known !== undefined) return known;
    const record = { id, createdAtMs, userId: id, ownerSettings: null, rateLimit: null, quota: null };
    const counts = { window: 0, day: 0, month: 0 };
    const read = { position: { databaseId: '', seq: 0 }, counts, ownerCounts: null, asOf: usage.countsAsOf() };
    const holder = usage.keep(usage.holderOf(record, read, true));
    holders.set(id, holder);
    return holder;
  }
  return {
    ...usage,
    note: (key: ReturnType<typeof keyOf>, usedAtMs: number) => usage.note(holderOf(key), usedAtMs),
    admit: (id: string) => usage.admit(holderOf(keyOf(id))),
    clock,
    log,
  };
}
