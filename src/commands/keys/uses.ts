// Uses of keys, as the database has them: what servers counted in the last seconds may be missing.

import type { PlacedKey } from '../../keys/admin.ts';
import { DAYS_SHOWN, type Uses, usesIn } from '../../keys/uses.ts';
import { dayAt } from '../../keys/windows.ts';
import type { Store } from '../../store/open.ts';
import { orFail } from './database.ts';

/** Keys whose days are read by one statement. */
const KEYS_PER_STATEMENT = 200;
/** No server counts as this one. */
const NO_INSTANCE = -1;

/** By id; keys that were not used in 30 days are left out. */
export async function usesOf(
  store: Store,
  keys: readonly PlacedKey[],
  nowMs: number,
): Promise<ReadonlyMap<string, Uses>> {
  const today = dayAt(nowMs);
  const uses = new Map<string, Uses>();
  for (let from = 0; from < keys.length; from += KEYS_PER_STATEMENT) {
    const ids = keys.slice(from, from + KEYS_PER_STATEMENT).map(({ id }) => id);
    for (const [id, days] of orFail(await store.usesByDay(ids, today - DAYS_SHOWN + 1, NO_INSTANCE))) {
      const shown = usesIn(new Map(days.map(([day, count]) => [day, count])), today);
      if (shown !== null) uses.set(id, shown);
    }
  }
  return uses;
}

export const usesOf30Days = (uses: Uses | undefined): number =>
  uses === undefined ? 0 : uses.last30Days.reduce((sum, count) => sum + count, 0);
