// A key as the verbs show it: as an object, and as cells of a table. Never a whole hash.

import type { PlacedKey } from '../../keys/admin.ts';
import { fingerprintOf, refusalAt } from '../../keys/record.ts';
import { type Quota, writtenLimit } from '../../lib/rate-limit.ts';
import type { Uses } from '../../uses/shown-uses.ts';
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
