// Databases to measure on, filled in bulk.

import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { userToken } from '../../support/client.ts';
import { openDatabase } from '../../support/database-client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { openEmbedded } from '../../support/stores.ts';

const KEYS_PER_USER = 10;

// One per millisecond, as if they had been made one after the other.
const INSERT = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT value ->> 0, value ->> 1, 'bench key', value ->> 2, ?3, 1, ?2 + key FROM json_each(?1)`;

const INSERTED_AT_ONCE = 100_000;

const userName = (index: number) => `user-${index}`;

/** A key as the server makes them, and what the database holds of it. */
export function newKey() {
  const key = `sk_test_${randomBytes(32).toString('hex')}`;
  return { key, id: randomBytes(16).toString('hex'), hash: createHash('sha256').update(key).digest('hex') };
}

/** Adds so many keys of alice to the database at `url`; returns them. */
export async function addKeys(url: string, count: number): Promise<string[]> {
  const made = Array.from({ length: count }, newKey);
  using client = openDatabase(url);
  const records = JSON.stringify(made.map(({ id, hash }) => [id, 'alice', hash]));
  await client.execute({ sql: INSERT, args: [records, Date.now() - count, '["read"]'] });
  return made.map(({ key }) => key);
}

/** A database with so many keys, which have these scopes; and the keys, plain. */
export async function buildDatabase(count: number, scopes = '["read"]') {
  const path = join(temporaryFolder(), 'keys.db');
  const opened = await openEmbedded(path); // makes the schema
  await opened.close();
  return fillDatabase(path, count, scopes);
}

/** The same with a database that is there, of any version. */
export async function fillDatabase(path: string, count: number, scopes = '["read"]') {
  const made = Array.from({ length: count }, newKey);
  const records = made.map(({ id, hash }, index) => [id, userName(Math.floor(index / KEYS_PER_USER)), hash]);
  using client = openDatabase(`file:${path}`);
  await client.execute('PRAGMA synchronous = OFF');
  await client.execute('PRAGMA cache_size = -262144'); // KiB: the indices of a million random hashes
  for (let from = 0; from < count; from += INSERTED_AT_ONCE) {
    const some = JSON.stringify(records.slice(from, from + INSERTED_AT_ONCE));
    await client.execute({ sql: INSERT, args: [some, Date.now() - count + from, scopes] });
  }
  await client.execute('PRAGMA wal_checkpoint(TRUNCATE)');
  return { path, keys: made.map(({ key }) => key) };
}

/** Tokens of so many users. */
export const userTokens = (count: number): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => userToken(userName(index))));

/** Callers don't use keys in the order in which they were made: their rows lie all over the file. */
export const shuffled = <T>(values: readonly T[]): T[] =>
  values
    .map((value) => ({ value, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
