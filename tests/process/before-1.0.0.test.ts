// A database, or a backup, of what was there before 1.0.0: one line says so, at a start and by each command, and its files
// stay as they are.

import { expect, test } from 'bun:test';
import { cpSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { VERBS } from '../../src/commands/keys.ts';
import { type Client, openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { failingStartOn } from '../support/failing-start.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { keysCommand } from '../support/keys-command.ts';
import { startSqld } from '../support/sqld.ts';
import { newDatabaseAt } from '../support/template.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const SAYS =
  /^(?:[a-z-]+: )?DATABASE_URL: this database is of a version before 1\.0\.0, which this one does not read; nothing was changed\. .*\n$/;

async function fillAsBefore(db: Client): Promise<void> {
  for (const sql of [
    'CREATE TABLE api_keys (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL) STRICT',
    'CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at_ms INTEGER NOT NULL) STRICT',
    "INSERT INTO schema_migrations VALUES (1, '0001_keys', 1), (2, '0002_key_uses', 1)",
    "INSERT INTO api_keys VALUES (1, 'a', 'alice')",
  ])
    await db.execute(sql);
}

/** A folder with `keys.db`. `wasKilled`: as a server leaves it that was killed, half of it in its write-ahead log. */
async function folderOfBefore(wasKilled: boolean): Promise<string> {
  const [made, folder] = [diskFolder(), diskFolder()];
  const db = openDatabase(`file:${join(made, 'keys.db')}`);
  await db.execute('PRAGMA journal_mode = WAL');
  await fillAsBefore(db);
  if (!wasKilled) db.close();
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(made)) if (!name.endsWith('-shm')) cpSync(join(made, name), join(folder, name));
  if (wasKilled) db.close();
  return folder;
}

/** What its files hold. SQLite makes an index of the log anew, and may leave an empty log. */
const bytesIn = (folder: string) =>
  readdirSync(folder)
    .map((name) => [name, readFileSync(join(folder, name), 'latin1')])
    .filter(([name, bytes]) => !name?.endsWith('-shm') && bytes !== '')
    .sort();

const LEFT = [
  ['after an orderly stop', false],
  ['by a kill', true],
] as const;

test.each(
  LEFT.flatMap(([left, wasKilled]) =>
    rows(['bun', 'deno'] as const, 1).map((runtime) => [runtime, left, wasKilled] as const),
  ),
)('a start on %s fails, and leaves a file that was left %s as it is', async (runtime, _, wasKilled) => {
  const folder = await folderOfBefore(wasKilled);
  const before = bytesIn(folder);
  const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: `file:${join(folder, 'keys.db')}` };
  const { code, stderr } = await failingStartOn(runtime, env);
  expect([code, stderr]).toEqual([1, expect.stringMatching(SAYS)]);
  expect(bytesIn(folder)).toEqual(before);
});

const ID = '0'.repeat(32);
/** How each verb is called that uses the database. */
const ARGS: Readonly<Record<string, (folder: string) => readonly string[]>> = {
  list: () => [],
  show: () => [ID],
  create: () => ['--user', 'u', '--name', 'n'],
  update: () => [ID, '--limit', '5/1h'],
  revoke: () => [ID, '--yes'],
  rule: () => ['list'],
  usage: () => [],
  owner: () => ['alice'],
  owners: () => [],
  block: () => ['alice', '--yes'],
  unblock: () => ['alice'],
  events: () => [],
  backup: (folder) => [join(folder, 'made.db')],
  restore: (folder) => [join(folder, 'backup.db'), '--yes'],
  export: () => [],
  import: (folder) => [join(folder, 'keys.jsonl')],
  doctor: () => [],
};

test('every verb that uses the database is tried below', () => {
  expect(Object.keys(VERBS).filter((verb) => !(verb in ARGS))).toEqual(['header']);
});

test.each(LEFT.flatMap(([left, wasKilled]) => Object.keys(ARGS).map((verb) => [verb, left, wasKilled] as const)))(
  '`keys %s` fails, and leaves a file that was left %s as it is',
  async (verb, _, wasKilled) => {
    const folder = await folderOfBefore(wasKilled);
    const others = fill(diskFolder(), {
      'keys.jsonl': `${JSON.stringify({ userId: 'u', name: 'n', keyHash: 'a'.repeat(64), scopes: [] })}\n`,
    });
    await newDatabaseAt(join(others, 'backup.db'));
    const [before, othersBefore] = [bytesIn(folder), bytesIn(others)];
    const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: `file:${join(folder, 'keys.db')}` };
    const { code, stdout, stderr } = await keysCommand(env, [verb, ...(ARGS[verb]?.(others) ?? [])]);
    expect([code, verb === 'doctor' ? '' : stdout, verb === 'doctor' ? `${stdout}${stderr}` : stderr]).toEqual([
      1,
      '',
      verb === 'doctor' ? expect.stringContaining('is of a version before 1.0.0') : expect.stringMatching(SAYS),
    ]);
    expect([bytesIn(folder), bytesIn(others)]).toEqual([before, othersBefore]);
  },
);

test.each(LEFT)('`keys restore` of a backup that was left %s changes nothing', async (_, wasKilled) => {
  const [backup, folder] = [await folderOfBefore(wasKilled), diskFolder()];
  await newDatabaseAt(join(folder, 'keys.db'));
  const before = [bytesIn(backup), bytesIn(folder)];
  for (const name of ['keys.db', 'none.db']) {
    const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: `file:${join(folder, name)}` };
    const { code, stderr } = await keysCommand(env, ['restore', join(backup, 'keys.db'), '--yes']);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^keys: expected a backup, got ".*": it is of a version before 1\.0\.0, which this one does not read\n$/,
      ),
    ]);
  }
  expect([bytesIn(backup), bytesIn(folder)]).toEqual(before);
});

test('a start, and a command, on a remote one', async () => {
  await using sqld = await startSqld();
  using db = openDatabase(sqld.url);
  await fillAsBefore(db);
  const tables = async () => (await db.execute('SELECT name, sql FROM sqlite_master ORDER BY name')).rows;
  const before = await tables();
  const env = { JWT_SECRET: TEST_SECRET, ...sqld.env };
  const { code, stderr } = await failingStartOn('bun', env);
  expect([code, stderr]).toEqual([1, expect.stringMatching(SAYS)]);
  expect(await keysCommand(env, ['list'])).toMatchObject({ code: 1, stderr: expect.stringMatching(SAYS) });
  expect(await keysCommand(env, ['backup', join(diskFolder(), 'b.db')])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(SAYS),
  });
  expect(await tables()).toEqual(before);
});
