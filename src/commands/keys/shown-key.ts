// A key as the verbs show it: as an object, and as cells of a table, with its uses. Never a whole hash.

import type { PlacedKey } from '../../keys/admin.ts';
import { fingerprintOf, refusalAt } from '../../keys/record.ts';
import { type Quota, writtenLimit } from '../../lib/rate-limit.ts';
import { systemClock } from '../../lib/runtime.ts';
import type { Store } from '../../store/open.ts';
import { type Uses, usesOf as usesOfIds } from '../../uses/shown-uses.ts';
import { orFail } from './database.ts';
import { cut, isoTime, localTime } from './terminal.ts';

/** What an object has beside the record. */
export interface KeyFacts {
  readonly uses: Uses | undefined;
  /** The server's, for keys without one of their own. */
  readonly keyQuota: Quota | null;
}

export const keyObject = (key: PlacedKey, { uses, keyQuota }: KeyFacts) => ({
  id: key.id,
  owner: key.userId,
  name: key.name,
  scopes: key.scopes,
  active: key.active,
  blocked: key.blocked,
  createdAt: isoTime(key.createdAtMs),
  expiresAt: isoTime(key.expiresAtMs),
  lastUsedAt: isoTime(key.lastUsedAtMs),
  fingerprint: fingerprintOf(key.keyHash),
  ...(key.rateLimit !== null && { rateLimit: writtenLimit(key.rateLimit) }),
  ...((key.quota ?? keyQuota) !== null && { quota: key.quota ?? keyQuota }),
  ...(uses !== undefined && { uses }),
});

/** Rows of a table: what stands above them, and the cells of a key. */
export interface KeyTable {
  readonly heads: readonly string[];
  readonly cells: (key: PlacedKey, nowMs: number) => readonly string[];
}

const stateOf = (key: PlacedKey, nowMs: number) =>
  refusalAt({ ...key, presented: 'in_force', secretEndsAtMs: null }, nowMs) ?? 'active';

export const WIDE: KeyTable = {
  heads: ['ID', 'OWNER', 'NAME', 'SCOPES', 'STATE', 'CREATED', 'EXPIRES', 'LAST USED', 'FINGERPRINT'],
  cells: (key, nowMs) => [
    key.id,
    key.userId,
    key.name,
    key.scopes.join(' ') || '-',
    stateOf(key, nowMs),
    localTime(key.createdAtMs),
    localTime(key.expiresAtMs),
    localTime(key.lastUsedAtMs),
    fingerprintOf(key.keyHash),
  ],
};

/** With an id of 32 columns, a state of 7, a day of 10 and what is between them, 80. */
const OWNER_COLUMNS = 12;
const NAME_COLUMNS = 11;
const DAY_CHARS = 10;

export const NARROW: KeyTable = {
  heads: ['ID', 'OWNER', 'NAME', 'STATE', 'LAST USED'],
  cells: (key, nowMs) => [
    key.id,
    cut(key.userId, OWNER_COLUMNS),
    cut(key.name, NAME_COLUMNS),
    stateOf(key, nowMs),
    localTime(key.lastUsedAtMs).slice(0, DAY_CHARS),
  ],
};

/** No server counts as this one. */
const NO_INSTANCE = -1;

/**
 * By id, as the database has them: what servers counted in the last seconds may be missing. Keys that were not used in 30
 * days are left out.
 */
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
