// Reads owners with their settings.

import { memoize } from '../ground/cache.ts';
import { storedMetadata } from '../ground/metadata.ts';
import { limitOf, type Quota } from '../ground/rate-limit.ts';
import type { PlanStore, StoredOwner } from '../keys/plans.ts';
import type { OwnerSettings } from '../keys/record.ts';
import { type Database, firstOf, listIn, type Row, textIn } from './database.ts';

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

const FIND = `SELECT n.owner, ${OWNER_SETTINGS}, EXISTS (SELECT 1 FROM blocked_owners b WHERE b.owner = n.owner) AS blocked,
(SELECT count(*) FROM api_keys WHERE user_id = n.owner) AS keys
FROM (SELECT ?1 AS owner) n LEFT JOIN owners o ON o.owner = n.owner`;

export const planStore = (db: Database): PlanStore => ({
  async findOwner(owner) {
    const row = firstOf(await db.read({ sql: FIND, args: [owner], fairnessKey: owner }));
    return storedOwnerOf(row, Number(row.keys));
  },
});
