// Reads owners with their settings.

import { memoize } from '../ground/cache.ts';
import { storedMetadata } from '../ground/metadata.ts';
import { limitOf, type Quota } from '../ground/rate-limit.ts';
import type { JsonObject } from '../ground/text.ts';
import type { PlanStore, StoredOwner } from '../keys/plans.ts';
import type { OwnerSettings } from '../keys/record.ts';
import { type Database, listIn, type Row, textIn } from './database.ts';

/** Selects the settings of owner `o`; NULL without a row. */
export const OWNER_SETTINGS = `CASE WHEN o.owner IS NOT NULL THEN json_array(o.limit_requests, o.limit_window_s,
o.quota_requests, o.quota_period, o.keys_max, json(o.metadata)) END AS owner_settings`;

/** What OWNER_SETTINGS selects. */
type Selected = readonly [
  ...limit: readonly [requests: number, windowS: number] | readonly [null, null],
  ...quota: readonly [requests: number, period: Quota['period']] | readonly [null, null],
  keysMax: number | null,
  metadata: JsonObject | null,
];

/** Returns one shared object for equal settings, which many owners have. */
const settingsFrom = memoize((json: string): OwnerSettings => {
  const [requests, windowS, quotaRequests, period, keysMax, metadata] = listIn<Selected>(json);
  return {
    rateLimit: requests === null ? null : limitOf(requests, windowS),
    quota: quotaRequests === null ? null : { requests: quotaRequests, period },
    keysMax,
    metadata: metadata && storedMetadata(metadata),
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

// The limit is written in: SQLite compiles a statement with a bound one at each execution.
const find = (
  counted: number,
) => `SELECT n.owner, ${OWNER_SETTINGS}, EXISTS (SELECT 1 FROM blocked_owners b WHERE b.owner = n.owner) AS blocked,
(SELECT count(*) FROM (SELECT 1 FROM api_keys WHERE user_id = n.owner LIMIT ${counted})) AS keys
FROM (SELECT ?1 AS owner) n LEFT JOIN owners o ON o.owner = n.owner
WHERE ?2 = 0 OR coalesce(o.limit_requests, o.quota_requests, o.keys_max) IS NOT NULL`;

export const planStore = (db: Database): PlanStore => ({
  async findOwner(owner, { isLimited = false, counted = -1 } = {}) {
    const [row] = await db.read({ sql: find(counted), args: [owner, Number(isLimited)], fairnessKey: owner });
    return row === undefined ? null : storedOwnerOf(row, Number(row.keys));
  },
});
