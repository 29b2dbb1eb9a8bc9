// Decides whether the database knows which keys are unused, before any is revoked for that.

import { MS_PER_DAY } from '../../ground/runtime.ts';
import type { Database } from '../../store/database.ts';

const EXCHANGED = `SELECT 1 FROM exchanges WHERE at_ms >= unixepoch('subsec') * 1000 - ${MS_PER_DAY} LIMIT 1`;
const RESTORED =
  "SELECT 1 FROM key_events WHERE key_id IS NULL AND owner = '' AND kind = 'restored' AND at_ms >= ? LIMIT 1";

/** Returns why nobody knows which keys were unused since a time; null: the database knows. */
export async function whyUnknown({ read }: Database, sinceMs: number): Promise<string | null> {
  if ((await read({ sql: EXCHANGED })).length === 0)
    return 'the database has seen no exchange of uses for a day, so keys that are in use would look unused; none was revoked';
  if ((await read({ sql: RESTORED, args: [sinceMs] })).length > 0)
    return 'the database was restored within this time, so uses are missing; none was revoked';
  return null;
}
