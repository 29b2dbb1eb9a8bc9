// Many keys at once, by SQL. Nobody has their secrets.

import type { Client } from './database-client.ts';

const FILL = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
SELECT lower(hex(randomblob(16))), 'owner-' || (i / 3) || '@example.com', 'key ' || i, lower(hex(randomblob(32))),
'["read","read:orders"]', 1, ?3 + i FROM n`;

/** Keys of one statement: `sqld` ends one after 5 s, which a busy machine needs for 20,000. */
const AT_ONCE = 2000;

/** Adds so many keys, of a third as many owners, made a day ago. */
export async function fillKeys(db: Client, keys: number): Promise<void> {
  const madeAtMs = Date.now() - 86_400_000;
  for (let done = 0; done < keys; done += AT_ONCE)
    await db.execute({ sql: FILL, args: [done + 1, Math.min(done + AT_ONCE, keys), madeAtMs] });
}
