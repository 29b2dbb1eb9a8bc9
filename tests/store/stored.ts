// What the tables hold, for tests of other rooms that have to know: they read it here.

import { executeAt } from '../support/database-client.ts';
import { ALL_DAYS, placeOf } from '../support/fill.ts';

/** Everything that is kept of codes, as it is stored. */
export const storedCodes = (url: string) => executeAt(url, 'SELECT * FROM codes');

/** Returns what tells how many codes an owner had as each of his keys was deleted. */
export async function watchedCodes(url: string) {
  await executeAt(url, 'CREATE TABLE seen (codes)');
  const see = 'INSERT INTO seen SELECT count(*) FROM codes WHERE owner = old.user_id';
  await executeAt(url, `CREATE TRIGGER sees AFTER DELETE ON api_keys BEGIN ${see}; END`);
  return async () => (await executeAt(url, 'SELECT codes FROM seen')).map(({ codes }) => codes);
}

/** How the open requests of programs for a key are counted. */
export const planOfCounting = async (url: string): Promise<string> =>
  JSON.stringify(
    await executeAt(
      url,
      `EXPLAIN QUERY PLAN SELECT count(*) FROM codes WHERE asked_from IS NOT NULL
AND taken_by IS NULL AND decision IS NULL AND ends_at_ms > 1 AND ends_at_ms <= 2`,
    ),
  );

/** Everything that is kept of children, as it is stored. */
export const storedChildren = (url: string) => executeAt(url, 'SELECT * FROM children ORDER BY row');

/** What announces a change to the other processes, oldest first. */
export const announced = async (url: string) =>
  (await executeAt(url, 'SELECT key_hash FROM changes ORDER BY seq')).map(({ key_hash }) => key_hash);

/** Keys that say who changed them: only a statement that changes nothing else could leave that. */
export const unfinishedKeys = (url: string) =>
  executeAt(url, 'SELECT id FROM api_keys WHERE changed_by IS NOT NULL OR deleting IS NOT NULL');

/** Names and values of the secrets that all processes share. */
export const storedSecrets = async (url: string) =>
  (await executeAt(url, 'SELECT name, value FROM server_secrets ORDER BY name')).map(({ name, value }) => [
    name,
    value,
  ]);

/** How many keys and owners have counts. */
export const countedHolders = async (url: string): Promise<number> =>
  (await executeAt(url, 'SELECT DISTINCT row FROM key_months')).length;

/** Units that are counted for all keys of an owner together, of all days. */
export async function countedOf(db: Read, owner: string): Promise<number> {
  const [row] = await db.read({
    sql: `SELECT sum(${ALL_DAYS}) AS uses FROM key_months m JOIN holders h ON m.row = -h.row WHERE h.owner = ?`,
    args: [owner],
  });
  return Number(row?.uses);
}

interface Read {
  read(statement: {
    readonly sql: string;
    readonly args: readonly string[];
  }): Promise<readonly { readonly uses?: unknown }[]>;
}

/** Counts uses of a key on a day (since 1970, in UTC), as if servers had. */
export async function addUses(url: string, keyId: string, day: number, uses: number): Promise<void> {
  const { month, column } = placeOf(day);
  await executeAt(url, {
    sql: `INSERT INTO key_months (row, month, ${column}, last_used_at_ms)
SELECT row, ?2, ?3, ?4 FROM api_keys WHERE id = ?1
ON CONFLICT DO UPDATE SET ${column} = excluded.${column}, last_used_at_ms = max(coalesce(last_used_at_ms, 0), ?4)`,
    args: [keyId, month, uses, day * 86_400_000],
  });
}
