// Many keys at once, by SQL. Nobody has their secrets.

import type { Client } from './database-client.ts';

const FILL = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
SELECT lower(hex(randomblob(16))), 'owner-' || (i / 3) || '@example.com', 'key ' || i, lower(hex(randomblob(32))),
'["read","read:orders"]', 1, ?3 + i FROM n`;

const USED = `INSERT INTO key_counts (row, window_s, number, uses)
WITH RECURSIVE days (ago) AS (SELECT 0 UNION ALL SELECT ago + 1 FROM days WHERE ago < ?1 - 1)
SELECT row, 86400, unixepoch() / 86400 - ago, 5 FROM api_keys, days WHERE true ON CONFLICT DO NOTHING`;

/** Keys of one statement: `sqld` ends one after 5 s, which a busy machine needs for 20,000. */
const AT_ONCE = 2000;

/** Adds so many keys, of a third as many owners, made a day ago. */
export async function fillKeys(db: Client, keys: number): Promise<void> {
  const madeAtMs = Date.now() - 86_400_000;
  for (let done = 0; done < keys; done += AT_ONCE)
    await db.execute({ sql: FILL, args: [done + 1, Math.min(done + AT_ONCE, keys), madeAtMs] });
}

/** Counts uses of every key on each of so many days, of which today is the last. */
export async function fillUses(db: Client, days: number): Promise<void> {
  await db.execute({ sql: USED, args: [days] });
}
