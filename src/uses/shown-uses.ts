// Returns the uses of keys that people see: today's and those of the last 30 days (UTC), over all processes.

import { dayAt } from '../ground/limits/rates.ts';
import { type Clock, nextTurn } from '../ground/runtime.ts';
import type { Holder } from './holder.ts';
import type { UsesStore } from './store.ts';
import { unitsIn } from './windows.ts';

const DAYS_SHOWN = 30;
/** Keys whose days one statement reads: some 5,000 counts, in 2 ms. */
const KEYS_READ_MAX = 200;

export interface Uses {
  readonly today: number;
  /** At most 30 numbers, today first, without trailing zeros. */
  readonly last30Days: readonly number[];
}

export interface UsesOptions {
  readonly store: Pick<UsesStore, 'usesByDay'>;
  readonly clock: Clock;
  readonly known: (keyId: string) => Holder | undefined;
}

/** Returns the uses of keys that were used in 30 days: this process's up to now, the others' as last written. */
export async function usesOf(
  keyIds: readonly string[],
  { store, clock, known }: UsesOptions,
): Promise<ReadonlyMap<string, Uses>> {
  const today = dayAt(clock.nowMs());
  const uses = new Map<string, Uses>();
  for (let from = 0; from < keyIds.length; from += KEYS_READ_MAX) {
    if (from > 0) await nextTurn();
    const slice = keyIds.slice(from, from + KEYS_READ_MAX);
    const read = await store.usesByDay(slice, today - DAYS_SHOWN + 1);
    for (const id of slice) {
      const shown = shownUses(read.get(id), known(id), today);
      if (shown !== null) uses.set(id, shown);
    }
  }
  return uses;
}

/** Returns the uses of one key; null: none in 30 days. */
function shownUses(
  stored: ReadonlyMap<number, number> | undefined,
  key: Holder | undefined,
  today: number,
): Uses | null {
  const days = new Map(stored);
  for (const usage of key?.days ?? []) {
    const { first: day } = usage.window;
    // What was sent may be stored already; what is pending is not.
    days.set(day, Math.max((days.get(day) ?? 0) + usage.pending, unitsIn(usage)));
  }
  const last30Days = Array.from({ length: DAYS_SHOWN }, (_, ago) => days.get(today - ago) ?? 0);
  const oldest = last30Days.findLastIndex((count) => count > 0);
  return oldest === -1 ? null : { today: last30Days[0] ?? 0, last30Days: last30Days.slice(0, oldest + 1) };
}
