// Uses of keys, as the database has them: what servers counted in the last seconds may be missing.

import type { PlacedKey } from '../../keys/admin.ts';
import { systemClock } from '../../lib/runtime.ts';
import type { Store } from '../../store/open.ts';
import { type Uses, usesOf as usesOfIds } from '../../uses/shown-uses.ts';
import { orFail } from './database.ts';

/** No server counts as this one. */
const NO_INSTANCE = -1;

/** By id; keys that were not used in 30 days are left out. */
export const usesOf = async (
  store: Pick<Store, 'usesByDay'>,
  keys: readonly PlacedKey[],
): Promise<ReadonlyMap<string, Uses>> =>
  orFail(
    await usesOfIds(
      keys.map(({ id }) => id),
      { store, clock: systemClock, instance: NO_INSTANCE, known: () => undefined },
    ),
  );

export const usesOf30Days = (uses: Uses | undefined): number =>
  uses === undefined ? 0 : uses.last30Days.reduce((sum, count) => sum + count, 0);
