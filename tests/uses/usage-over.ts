// The uses of keys in this process alone, over a store that tests stand in for.

import { StoreOutage } from '../../src/ground/result.ts';
import { createLog, systemRandom } from '../../src/start/package/index.ts';
import type { ExchangedUses, UsesStore } from '../../src/uses/store.ts';
import { createUsage } from '../../src/uses/usage.ts';
import type { LogWrite } from '../../src/watch/line-writer.ts';
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
  const rateLimit = { requests: 0, windowMs: 1000 };
  return {
    ...createUsage({
      store,
      clock,
      random: systemRandom,
      log,
      rateLimit,
      keyQuota: null,
      keysMax: 270_000,
      ...NO_OWNER_LIMITS,
    }),
    clock,
    log,
  };
}
