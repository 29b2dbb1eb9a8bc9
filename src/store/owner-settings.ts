// Reads an owner's settings, and maps them to the columns of `owners`.

import { memoize } from '../ground/cache.ts';
import { limitOf, type Quota } from '../ground/rate-limit.ts';
import type { PlanStore, StoredOwner } from '../keys/plans.ts';
import type { OwnerSettings } from '../keys/record.ts';
import { type Database, listIn, type Row, textIn, type Value } from './database.ts';

const COLUMNS = {
  rateLimit: ['limit_requests', 'limit_window_s'],
  quota: ['quota_requests', 'quota_period'],
  keysMax: ['keys_max'],
  metadata: ['metadata'],
} as const satisfies Record<keyof OwnerSettings, readonly string[]>;

/** Selects the settings of owner `o`; NULL without a row. */
export const OWNER_SETTINGS = `CASE WHEN o.owner IS NOT NULL THEN json_array(o.limit_requests, o.limit_window_s,
o.quota_requests, o.quota_period, o.keys_max, json(o.metadata)) END AS owner_settings`;

/** Returns one shared object for equal settings, which many owners have. */
const settingsFrom = memoize((json: string): OwnerSettings => {
  const [requests, windowS, quotaRequests, period, keysMax, metadata] = listIn(json);
  return {
    rateLimit: requests === null ? null : limitOf(requests, windowS),
    quota: quotaRequests === null ? null : { requests: quotaRequests, period: period as Quota['period'] },
    keysMax,
    metadata: metadata && Object.freeze(metadata), // an operator's tools see it
  };
});

export const ownerSettingsOf = ({ owner_settings: json }: Row): OwnerSettings | null =>
  json == null ? null : settingsFrom(String(json));

export const storedOwnerOf = (row: Row, keys: number): StoredOwner => ({
  owner: textIn(row, 'owner'),
  settings: ownerSettingsOf(row),
  blocked: row.blocked === 1,
  keys,
});

const FIND = `SELECT n.owner, ${OWNER_SETTINGS}, EXISTS (SELECT 1 FROM blocked_owners b WHERE b.owner = n.owner) AS blocked,
(SELECT count(*) FROM api_keys WHERE user_id = n.owner) AS keys
FROM (SELECT ?1 AS owner) n LEFT JOIN owners o ON o.owner = n.owner WHERE ?2 = 0 OR o.owner IS NOT NULL`;

export const planStore = (db: Database): PlanStore => ({
  async findOwner(owner, isSet = false) {
    const [row] = await db.read({ sql: FIND, args: [owner, Number(isSet)], fairnessKey: owner });
    return row === undefined ? null : storedOwnerOf(row, Number(row.keys));
  },
});

/** Returns the columns of the given settings, and their values. */
export function ownerColumnsOf(given: { readonly [F in keyof OwnerSettings]?: OwnerSettings[F] | undefined }) {
  const fields = (Object.keys(COLUMNS) as (keyof OwnerSettings)[]).filter((field) => given[field] !== undefined);
  const values: Readonly<Record<keyof OwnerSettings, readonly Value[]>> = {
    rateLimit: [given.rateLimit?.requests ?? null, given.rateLimit?.windowS ?? null],
    quota: [given.quota?.requests ?? null, given.quota?.period ?? null],
    keysMax: [given.keysMax ?? null],
    metadata: [given.metadata == null ? null : JSON.stringify(given.metadata)],
  };
  return { names: fields.flatMap((field) => COLUMNS[field]), values: fields.flatMap((field) => values[field]) };
}
