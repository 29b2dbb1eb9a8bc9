// A database gets what a version adds: in one transaction, by whichever process comes first, while others go on.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Database } from '../../src/store/database.ts';
import { embeddedDatabase } from '../../src/store/embedded/database.ts';
import { remoteDatabase } from '../../src/store/remote/database.ts';
import { inspect, migrate } from '../../src/store/schema.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { MIGRATIONS, NEXT_MIGRATIONS } from '../support/next-version.ts';
import { startSqld } from '../support/sqld.ts';

const partsOf = async (db: Database) =>
  (await db.read({ sql: "SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_%' ESCAPE '\\' ORDER BY name" })).map(
    ({ name }) => name,
  );

describe.each(rows(['a file', 'sqld'] as const, 1))('on %s', (place) => {
  /** Opens an empty database as several processes do. */
  async function opened(started: AsyncDisposableStack, processes: number): Promise<Database[]> {
    const path = join(temporaryFolder(), 'keys.db');
    const sqld = place === 'sqld' ? started.use(await startSqld()) : null;
    const open = async () =>
      sqld === null
        ? embeddedDatabase(path)
        : remoteDatabase({ mode: 'remote', url: sqld.url, authToken: null, replicaFile: null });
    const databases: Database[] = [];
    for (let n = 0; n < processes; n += 1) databases.push(await open());
    for (const { close } of databases) started.defer(async () => close());
    return databases;
  }

  test.each([
    ['an empty database', []],
    ['one of the version before', MIGRATIONS],
  ])('several processes that migrate %s at once all succeed', async (_, there) => {
    await using started = new AsyncDisposableStack();
    const databases = await opened(started, 4);
    const [first] = databases as [Database];
    if (there.length > 0) await migrate(first, there);
    await Promise.all(databases.map((db) => migrate(db, NEXT_MIGRATIONS)));
    for (const db of databases) expect(await inspect(db, NEXT_MIGRATIONS)).toBe(NEXT_MIGRATIONS.length);
    expect(await partsOf(first)).toContain('nicknames_made');
  });

  test('one whose turn comes after another has done it goes on', async () => {
    await using started = new AsyncDisposableStack();
    const [first, second] = (await opened(started, 2)) as [Database, Database];
    const overtaken: Database = {
      ...first,
      async writeAll(statements) {
        await migrate(second, NEXT_MIGRATIONS);
        return first.writeAll(statements);
      },
    };
    await migrate(overtaken, NEXT_MIGRATIONS);
    expect(await inspect(first, NEXT_MIGRATIONS)).toBe(NEXT_MIGRATIONS.length);
  });

  test('a migration that fails leaves the database as it was, and the next start does it', async () => {
    await using started = new AsyncDisposableStack();
    const [db] = (await opened(started, 1)) as [Database];
    await migrate(db);
    const before = await partsOf(db);
    const broken = NEXT_MIGRATIONS.map(({ name, sql }, at) => ({
      name,
      sql: at === MIGRATIONS.length ? `${sql}\nINSERT INTO no_such_table VALUES (1);\n` : sql,
    }));
    expect(
      await migrate(db, broken).then(
        () => 'done',
        () => 'failed',
      ),
    ).toBe('failed');
    expect([await inspect(db), await partsOf(db)]).toEqual([MIGRATIONS.length, before]);
    await migrate(db, NEXT_MIGRATIONS);
    expect(await inspect(db, NEXT_MIGRATIONS)).toBe(NEXT_MIGRATIONS.length);
  });

  test('an empty database is made by one request, and opened by two', async () => {
    await using started = new AsyncDisposableStack();
    const [db] = (await opened(started, 1)) as [Database];
    const requests: string[] = [];
    const counted: Database = {
      ...db,
      read: (statement, withinMs) => {
        requests.push('read');
        return db.read(statement, withinMs);
      },
      writeAll: (statements) => {
        requests.push('write');
        return db.writeAll(statements);
      },
    };
    await migrate(counted);
    expect(requests).toEqual(['read', 'write', 'read']); // what there is, all of it, what there is now
    await migrate(counted);
    expect(requests.slice(3)).toEqual(['read', 'read', 'read']);
  });
});
