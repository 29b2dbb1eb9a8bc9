// What a write says it changed: creations go by it (key-changes.ts).

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { temporaryFolder } from '../support/folder.ts';
import { startSqld } from '../support/sqld.ts';
import { type Database, embeddedDatabase, remoteDatabaseAt } from '../support/stores.ts';

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

test('an insert that conflicts or does not fit reports no change, from a file and from a remote database', async () => {
  await using sqld = await startSqld();
  for (const db of [embeddedDatabase(join(temporaryFolder(), 'entries.db')), await remoteDatabaseAt(sqld.url)]) {
    expect(await changedBy(db)).toEqual([1, 1, 0, 1, 0]); // the second b is there already, and d is one too many
    db.close();
  }
});
