// Bringing a database that is in use up to date: others go on writing between the steps, and it may break off anywhere.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Database } from '../../src/store/database.ts';
import { embeddedDatabase } from '../../src/store/embedded/database.ts';
import { inspect, migrate } from '../../src/store/schema.ts';
import type { Client } from '../support/database-client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { createByOld, MIGRATIONS, OLD_MIGRATIONS, oldDatabase } from '../support/old-database.ts';

/** Each column that a migration begins with is a step of its own, and the rest of it is another. */
const STEPS = MIGRATIONS.slice(OLD_MIGRATIONS.length).reduce((steps, { sql }) => steps + 1 + columnsFirst(sql), 0);

function columnsFirst(sql: string): number {
  const statements = sql
    .replace(/^--.*\n/gm, '')
    .split(';\n')
    .map((statement) => statement.trim());
  const rest = statements.findIndex((statement) => !/^ALTER TABLE \w+ ADD COLUMN/.test(statement));
  return rest < 0 ? statements.length : rest;
}

const announced = async (old: Client) => (await old.execute('SELECT key_hash FROM changes ORDER BY seq')).rows;

test('between two steps a server of the version before creates and revokes keys, and the feed says so', async () => {
  const { path, old } = await oldDatabase();
  const db = embeddedDatabase(path);
  const made: string[] = [];
  const next = async () => {
    const id = `made after step ${made.length}`;
    made.push(id);
    await createByOld(old, id);
    await old.execute({ sql: 'UPDATE api_keys SET active = 0 WHERE id = ?', args: [id] });
  };
  const beside: Database = {
    ...db,
    write: (statement, withinMs) => db.write(statement, withinMs).finally(next),
    writeAll: (statements) => db.writeAll(statements).finally(next),
  };
  await migrate(beside);
  expect(made.length).toBe(STEPS);
  expect((await announced(old)).map((row) => row.key_hash)).toEqual(made);
  const { rows } = await old.execute(
    'SELECT count(*) AS count FROM api_keys WHERE rotations = 0 AND changed_by IS NULL',
  );
  expect(rows[0]?.count).toBe(STEPS + 1);
  old.close();
  db.close();
});

test('a migration that breaks off after any step is finished at the next start', async () => {
  const { path, old } = await oldDatabase();
  const db = embeddedDatabase(path);
  let breaks = 0;
  for (;;) {
    let steps = 0;
    const step = () => {
      if (steps === 1) throw new Error('broken off');
      steps += 1;
    };
    const breaking: Database = {
      ...db,
      async write(statement, withinMs) {
        step();
        return db.write(statement, withinMs);
      },
      async writeAll(statements) {
        step();
        return db.writeAll(statements);
      },
    };
    const done = await migrate(breaking).then(
      () => true,
      () => false,
    );
    if (done) break;
    breaks += 1;
    await createByOld(old, `made after break ${breaks}`);
  }
  expect(breaks).toBe(STEPS - 1);
  expect(await inspect(db)).toBe(MIGRATIONS.length);
  expect((await db.read({ sql: 'SELECT count(*) AS count FROM api_keys WHERE deleting IS NULL' }))[0]?.count).toBe(
    STEPS,
  );
  old.close();
  db.close();
});

test('several processes that migrate at once all succeed', async () => {
  const { path, old } = await oldDatabase();
  const databases = Array.from({ length: 4 }, () => embeddedDatabase(path));
  await Promise.all(databases.map(migrate));
  for (const db of databases) {
    expect(await inspect(db)).toBe(MIGRATIONS.length);
    db.close();
  }
  old.close();
});

test('a process that makes an empty database goes on when another, which came a moment later, adds the columns', async () => {
  const path = join(temporaryFolder(), 'keys.db');
  const [first, second] = [embeddedDatabase(path), embeddedDatabase(path)];
  let writes = 0;
  let later: Promise<void> = Promise.resolve();
  const overtaken: Database = {
    ...first,
    async writeAll(statements) {
      writes += 1;
      if (writes === OLD_MIGRATIONS.length + 1) {
        // The second finds a database that seems to be in use, and adds a column.
        const added = Promise.withResolvers<void>();
        const adding: Database = {
          ...second,
          write: (statement, withinMs) => second.write(statement, withinMs).finally(added.resolve),
        };
        later = migrate(adding);
        await added.promise;
      }
      return first.writeAll(statements);
    },
  };
  await migrate(overtaken);
  await later;
  for (const db of [first, second]) {
    expect(await inspect(db)).toBe(MIGRATIONS.length);
    db.close();
  }
});
