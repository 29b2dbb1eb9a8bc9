// Maps an owner's settings to the columns of `owners`, for reading and writing.

import { memoize } from '../ground/cache.ts';
import { limitOf, type Quota } from '../ground/rate-limit.ts';
import type { OwnerSettings } from '../keys/record.ts';
import { listIn, type Row, type Value } from './database.ts';

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
