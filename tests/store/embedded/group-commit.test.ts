// Writes that wait at the same moment share a commit: what that does not change.

import { expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Statement } from '../../../src/store/database.ts';
import { type EmbeddedDatabase, embeddedDatabase } from '../../../src/store/embedded/database.ts';
import { openSqlite } from '../../../src/store/embedded/sqlite.ts';
import { diskFolder } from '../../support/folder.ts';
import { openFiles } from '../../support/open-files.ts';

const REFUSED = -1;
const add = (value: number): Statement => ({ sql: 'INSERT INTO entries VALUES (?1)', args: [value] });
const VALUES: Statement = { sql: 'SELECT value FROM entries ORDER BY value' };

async function newDatabase(): Promise<{ db: EmbeddedDatabase; path: string }> {
  const path = join(diskFolder(), 'entries.db');
  const db = embeddedDatabase(path);
  await db.read({ sql: 'PRAGMA journal_mode = WAL' });
  await db.write({ sql: 'CREATE TABLE entries (value INTEGER PRIMARY KEY CHECK (value >= 0))' });
  return { db, path };
}

const valuesIn = async (db: EmbeddedDatabase) => (await db.read(VALUES)).map(({ value }) => value);

/**
 * Commits in the write-ahead log: the frames with a size of the database in their header
 * (sqlite.org/fileformat2.html#walformat).
 */
function commitsIn(path: string): number {
  const log = readFileSync(`${path}-wal`);
  const frameBytes = 24 + log.readUInt32BE(8);
  let commits = 0;
  for (let at = 32; at < log.length; at += frameBytes) if (log.readUInt32BE(at + 4) > 0) commits += 1;
  return commits;
}

test('twenty writes at the same moment share commits of up to eight, and one that comes alone is one', async () => {
  const { db, path } = await newDatabase();
  const before = commitsIn(path);
  await Promise.all(Array.from({ length: 20 }, (_, value) => db.write(add(value))));
  const shared = commitsIn(path);
  expect(shared).toBeGreaterThanOrEqual(before + 3);
  expect(shared).toBeLessThanOrEqual(before + 10); // a group that takes 2 ms, as on a busy machine, ends
  await db.write(add(20));
  expect(commitsIn(path)).toBe(shared + 1);
  db.close();
});

const inBackground = (statement: Statement): Statement => ({ ...statement, unsynced: true, background: true });

test('a batch of the background holds up no event loop, and what is written after it waits for it', async () => {
  const { db } = await newDatabase();
  let turns = 0;
  const turning = setInterval(() => (turns += 1), 1);
  const ended: string[] = [];
  const sql = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000)
INSERT INTO entries SELECT max(i) FROM n`;
  const batch = db.writeAll([inBackground({ sql })]).then(() => ended.push('batch'));
  const after = db.write(add(1)).then(() => ended.push('after'));
  await Promise.all([batch, after]);
  clearInterval(turning);
  expect(ended).toEqual(['batch', 'after']);
  expect(turns).toBeGreaterThan(20); // it takes hundreds of milliseconds
  expect(await valuesIn(db)).toEqual([1, 3_000_000]);
  db.close();
});

test('a batch of the background is all or none; the one after a failed one is written, and closing leaves one file', async () => {
  const { db, path } = await newDatabase();
  const batch = (...values: number[]) => db.writeAll(values.map((value) => inBackground(add(value))));
  await expect(batch(1, REFUSED)).rejects.toThrow('CHECK constraint failed');
  expect((await batch(2, 3)).map(({ changed }) => changed)).toEqual([1, 1]);
  expect(await valuesIn(db)).toEqual([2, 3]);
  await db.close();
  expect(readdirSync(dirname(path))).toEqual([basename(path)]);
});

test('slow writes that come at the same moment share no commit: each would hold up the event loop for all', async () => {
  const { db, path } = await newDatabase();
  const slow = (value: number): Statement => ({
    sql: `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
INSERT INTO entries SELECT ?1 + max(i) FROM n`,
    args: [value],
  });
  const before = commitsIn(path);
  await Promise.all(Array.from({ length: 8 }, (_, value) => db.write(slow(value))));
  expect(commitsIn(path)).toBe(before + 8);
  expect(await valuesIn(db)).toHaveLength(8);
  db.close();
});

test('no write of a group is answered before all of it is committed', async () => {
  const { db, path } = await newDatabase();
  const other = openSqlite(path, { lockWaitMs: 0 });
  const seen: number[] = [];
  await Promise.all(
    [1, 2, 3].map(async (value) => {
      await db.write(add(value));
      seen.push(other.all(VALUES).length);
    }),
  );
  expect(seen).toEqual([3, 3, 3]);
  other.close();
  db.close();
});

test.each([0, 3, 7])('of eight writes, one that is refused (%d) takes none with it, and all end', async (refused) => {
  const { db } = await newDatabase();
  const values = [0, 1, 2, 3, 4, 5, 6, 7];
  const ended = await Promise.allSettled(values.map((value) => db.write(add(value === refused ? REFUSED : value))));
  expect(ended.map(({ status }) => status)).toEqual(
    values.map((value) => (value === refused ? 'rejected' : 'fulfilled')),
  );
  expect(await valuesIn(db)).toEqual(values.filter((value) => value !== refused));
  await db.write(add(100));
  expect(await valuesIn(db)).toContain(100);
  db.close();
});

test('of four writes, one for which the commit fails takes none with it, and all end', async () => {
  const { db } = await newDatabase();
  const later = 'INTEGER REFERENCES entries (value) DEFERRABLE INITIALLY DEFERRED';
  await db.write({ sql: `CREATE TABLE owned (id INTEGER PRIMARY KEY, entry ${later})` });
  const own = (id: number) => db.write({ sql: 'INSERT INTO owned VALUES (?1, ?2)', args: [id, id === 2 ? 99 : null] });
  const ended = await Promise.allSettled([1, 2, 3, 4].map(own));
  expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  expect(await db.read({ sql: 'SELECT id FROM owned' })).toEqual([{ id: 1 }, { id: 3 }, { id: 4 }]);
  await db.write(add(100));
  expect(await valuesIn(db)).toEqual([100]);
  db.close();
});

test('statements of a batch are all or none, also beside writes that wait at the same moment', async () => {
  const { db } = await newDatabase();
  const single = [1, 2, 3].map((value) => db.write(add(value)));
  const batch = db.writeAll([add(10), add(11), add(REFUSED)]);
  await expect(batch).rejects.toThrow('CHECK constraint failed');
  await Promise.all(single);
  await db.writeAll([add(20), add(21)]);
  expect(await valuesIn(db)).toEqual([1, 2, 3, 20, 21]);
  db.close();
});

test('a statement that is prepared once takes the arguments of each run, and columns that come later', async () => {
  const { db, path } = await newDatabase();
  const find = (value: number) => db.read({ sql: 'SELECT * FROM entries WHERE value = ?1', args: [value] });
  await Promise.all([1, 2].map((value) => db.write(add(value))));
  expect(await find(1)).toEqual([{ value: 1 }]);
  expect(await find(3)).toEqual([]);
  expect(await find(2)).toEqual([{ value: 2 }]);
  const other = openSqlite(path, { lockWaitMs: 0 });
  other.run({ sql: "ALTER TABLE entries ADD COLUMN name TEXT DEFAULT 'n'" });
  other.close();
  expect(await find(1)).toEqual([{ value: 1, name: 'n' }]);
  db.close();
});

test('an integer that a number cannot hold is an error, not another integer', async () => {
  const { db } = await newDatabase();
  await db.write({ sql: 'INSERT INTO entries VALUES (9007199254740993)' });
  await expect(db.read(VALUES)).rejects.toThrow('too large');
  db.close();
});

test('while another holds the file writes wait, with the connection that they have, and are done when it lets go', async () => {
  const { db, path } = await newDatabase();
  const other = openSqlite(path, { lockWaitMs: 0 });
  other.run({ sql: 'BEGIN IMMEDIATE' });
  const before = openFiles(process.pid).filter((file) => file.startsWith(path)).length;
  const written = [1, 2, 3].map((value) => db.write(add(value)));
  await Bun.sleep(100); // some twenty tries
  expect(await db.read(VALUES)).toEqual([]);
  expect(openFiles(process.pid).filter((file) => file.startsWith(path)).length).toBe(before);
  other.run({ sql: 'ROLLBACK' });
  await Promise.all(written);
  expect(await valuesIn(db)).toEqual([1, 2, 3]);
  other.close();
  db.close();
});
