// What people see of a key's uses: today's and those of the last 30 days (UTC), by all processes as far as is known.

import { ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { nextTurn } from '../lib/timeout.ts';
import type { StoreUnavailable } from '../problem.ts';
import { LATE_DAYS_MAX } from './exchange.ts';
import type { DayUses, UsesStore } from './store.ts';
import type { Counted } from './tally.ts';
import { DAY_S, dayAt } from './windows.ts';

const DAYS_SHOWN = 30;
/** Keys whose days are read by one statement: some 5,000 counts, in 2 ms. */
const KEYS_READ_MAX = 200;

export interface Uses {
  readonly today: number;
  /** At most 30 numbers, today first, without the zeros at the end. */
  readonly last30Days: readonly number[];
}

export interface UsesOptions {
  readonly store: Pick<UsesStore, 'usesByDay'>;
  readonly clock: Clock;
  readonly instance: number;
  readonly known: (keyId: string) => Counted | undefined;
}

/** Of keys that were used in 30 days: this process's uses as of now, the others' as last written. */
export async function usesOf(
  keyIds: readonly string[],
  { store, clock, instance, known }: UsesOptions,
): Promise<Result<ReadonlyMap<string, Uses>, StoreUnavailable>> {
  const today = dayAt(clock.nowMs());
  const uses = new Map<string, Uses>();
  for (let from = 0; from < keyIds.length; from += KEYS_READ_MAX) {
    const slice = keyIds.slice(from, from + KEYS_READ_MAX);
    // Taken before the read: what is written meanwhile is missing there.
    const own = new Map(slice.map((id) => [id, lateUses(known(id), today)]));
    const read = await store.usesByDay(slice, today - DAYS_SHOWN + 1, instance);
    if (!read.ok) return read;
    for (const id of slice) {
      const shown = shownUses(read.value.get(id) ?? [], own.get(id) ?? new Map(), today);
      if (shown !== null) uses.set(id, shown);
    }
    if (from + KEYS_READ_MAX < keyIds.length) await nextTurn();
  }
  return ok(uses);
}

/** Of the days whose uses may not be written yet. */
const lateUses = (key: Counted | undefined, today: number): ReadonlyMap<number, number> =>
  new Map(
    key === undefined
      ? []
      : [...key.earlier, key.day]
          .filter(({ windowS, number }) => windowS === DAY_S && number >= today - LATE_DAYS_MAX)
          .map(({ number, own }) => [number, own]),
  );

/** Null: there were none in 30 days. */
function shownUses(stored: readonly DayUses[], here: ReadonlyMap<number, number>, today: number): Uses | null {
  const last30Days = Array.from({ length: DAYS_SHOWN }, (_, ago) => here.get(today - ago) ?? 0);
  for (const [day, all, own] of stored) {
    const ago = today - day;
    if (ago >= 0) last30Days[ago] = all - own + Math.max(own, last30Days[ago] ?? 0);
  }
  const oldest = last30Days.findLastIndex((count) => count > 0);
  return oldest === -1 ? null : { today: last30Days[0] ?? 0, last30Days: last30Days.slice(0, oldest + 1) };
}
