// What a write says it changed: creations go by it (key-changes.ts).

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { type Database, embeddedDatabase, remoteDatabaseAt } from '../support/embedded.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startSqld } from '../support/sqld.ts';

// A trigger writes two rows more, as that of api_keys does.
const SCHEMA = [
  'CREATE TABLE entries (name TEXT UNIQUE)',
  'CREATE TABLE trail (name TEXT)',
  `CREATE TRIGGER added AFTER INSERT ON entries
BEGIN INSERT INTO trail VALUES (new.name); UPDATE entries SET name = lower(name) WHERE rowid = new.rowid; END`,
];

async function changedBy(db: Database): Promise<number[]> {
  for (const sql of SCHEMA) await db.write({ sql });
  const add = 'INSERT INTO entries SELECT ?1 WHERE (SELECT count(*) FROM entries) < 3 ON CONFLICT DO NOTHING';
  const changed = [];
  for (const name of ['a', 'b', 'b', 'c', 'd']) {
    changed.push((await db.write({ sql: add, args: [name] })).changed);
  }
  return changed;
}

const EXPECTED = [1, 1, 0, 1, 0]; // the second b is there already, and d is one too many

test('an insert into a file that conflicts, or whose condition does not hold, reports no change', async () => {
  const db = embeddedDatabase(join(temporaryFolder(), 'entries.db'));
  expect(await changedBy(db)).toEqual(EXPECTED);
  db.close();
});

test('an insert into a remote database reports the same changes as one into a file', async () => {
  await using sqld = await startSqld();
  const db = await remoteDatabaseAt(sqld.url);
  expect(await changedBy(db)).toEqual(EXPECTED);
  db.close();
});
