// Many keys at once, by SQL. Nobody has their secrets.

import type { Client } from './database-client.ts';

// Clients send numbers as reals, by which 1 / 3 would be an owner of its own.
const FILL = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
WITH RECURSIVE n (i) AS (SELECT CAST(?1 AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
SELECT lower(hex(randomblob(16))), 'owner-' || (i / CAST(?4 AS INTEGER)) || '@example.com', 'key ' || i, lower(hex(randomblob(32))),
'["read","read:orders"]', 1, ?3 + i FROM n`;

/** Keys of one statement: `sqld` ends one after 5 s, which a busy machine needs for 20,000. */
const AT_ONCE = 2000;

/** Adds so many keys, made a day ago; of a third as many owners, unless each has more. */
export async function fillKeys(db: Client, keys: number, ofEach = 3): Promise<void> {
  const madeAtMs = Date.now() - 86_400_000;
  for (let done = 0; done < keys; done += AT_ONCE)
    await db.execute({ sql: FILL, args: [done + 1, Math.min(done + AT_ONCE, keys), madeAtMs, ofEach] });
}

/** Returns the month and the column in which key_months has a day (since 1970, in UTC). */
export function placeOf(day: number): { readonly month: number; readonly column: string } {
  const date = new Date(day * 86_400_000);
  return { month: date.getUTCFullYear() * 12 + date.getUTCMonth(), column: `d${date.getUTCDate()}` };
}

/** Selects the sum of all days of a row. */
export const ALL_DAYS = Array.from({ length: 31 }, (_, at) => `d${at + 1}`).join(' + ');

/** Counts five uses of every key on each of so many days, of which today is the last. */
export async function fillUses(db: Client, days: number): Promise<void> {
  const today = Math.floor(Date.now() / 86_400_000);
  const all = Array.from({ length: days }, (_, ago) => placeOf(today - ago));
  for (const [month, places] of Map.groupBy(all, ({ month }) => month)) {
    const columns = places.map(({ column }) => column);
    await db.execute(`INSERT INTO key_months (row, month, ${columns})
SELECT row, ${month}, ${columns.map(() => 5)} FROM api_keys WHERE true
ON CONFLICT DO UPDATE SET ${columns.map((column) => `${column} = 5`)}`);
  }
}
