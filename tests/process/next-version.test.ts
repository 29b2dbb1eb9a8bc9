// A server of the next version starts beside one of this, and this one is stopped later, as in a rolling upgrade.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { run } from '../support/command.ts';
import { type Client, executeAt, openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { diskFolder } from '../support/folder.ts';
import { nextVersion } from '../support/next-version.ts';
import { logOf, runToExit, type ServerProcess, startServer, untilOpen } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor, waitForWithin } from '../support/wait-for.ts';

/** More than the default, which a machine that does other things too may not keep. */
const LAG_MAX_MS = 5000;

const SETTINGS = { JWT_SECRET: TEST_SECRET, LOG_LEVEL: 'warn', REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) };

const create = async ({ url }: ServerProcess) =>
  (await callOver(url, 'create_api_key', { name: 'k', scopes: ['read'] }, await userHeaders('alice'))).body;
const revoke = async ({ url }: ServerProcess, keyId: string) =>
  callOver(url, 'revoke_api_key', { keyId }, await userHeaders('alice'));
const replicaOf = async ({ url }: ServerProcess): Promise<string> =>
  ((await (await fetch(`${url}/mcp/health`)).json()) as { store: { replica: string } }).store.replica;
const used = async ({ url }: ServerProcess, key: string) =>
  (await callOver(url, 'get_data', {}, { 'x-api-key': key })).status;

describe.each(rows(['sqld, with a replica', 'a file', 'sqld'] as const, 1))('on %s', (place) => {
  async function placed(started: AsyncDisposableStack): Promise<Record<string, string>> {
    const folder = diskFolder();
    if (place === 'a file') return { ...SETTINGS, DATABASE_URL: `file:${folder}/keys.db` };
    const { env } = started.use(await startSqld());
    return { ...SETTINGS, ...env, ...(place !== 'sqld' && { DATABASE_REPLICA_FILE: join(folder, 'replica.db') }) };
  }

  test('both serve, each learns of what the other does, and this one can’t start again', async () => {
    await using started = new AsyncDisposableStack();
    const env = await placed(started);
    await using old = await startServer({ env });
    await untilOpen(old);
    const first = await create(old);
    expect(await used(old, first.key)).toBe(200);
    await using next = await startServer({ env, root: nextVersion() });
    await untilOpen(next);
    const keys = [first, await create(old), await create(next)];
    for (const { key } of keys) expect([await used(old, key), await used(next, key)]).toEqual([200, 200]);
    await revoke(old, keys[1].id);
    await revoke(next, keys[0].id);
    await waitForWithin(LAG_MAX_MS, async () => (await used(next, keys[1].key)) === 401);
    await waitForWithin(LAG_MAX_MS, async () => (await used(old, keys[0].key)) === 401);
    const rows = await executeAt(env.DATABASE_URL ?? '', 'SELECT key_id FROM nicknames');
    expect(rows.map(({ key_id }) => key_id).sort()).toEqual([keys[1].id, keys[2].id].sort());
    if (env.DATABASE_REPLICA_FILE !== undefined) {
      for (const server of [old, next]) await waitFor(async () => (await replicaOf(server)) === 'in_use');
    }
    expect(await old.stop()).toBe(0);
    expect(logOf(old).filter(({ event }) => event !== 'Invalid or expired API key')).toEqual([]);
    expect(await used(next, keys[2].key)).toBe(200);
    const { code, stderr } = await runToExit({ env });
    expect([code, stderr]).toEqual([1, expect.stringContaining('written by a newer version of this program')]);
  }, 180_000);
});

test('a table with facts alone is pruned, backed up, restored and copied into a replica', async () => {
  await using sqld = await startSqld();
  const [root, folder] = [nextVersion(), diskFolder()];
  const env = { ...SETTINGS, ...sqld.env };
  const keys = async (url: string, ...args: string[]) => {
    const command = [process.execPath, '--no-env-file', join(root, 'src/commands/keys.ts'), ...args];
    expect(await run(command, { cwd: folder, env: { ...env, DATABASE_URL: url } })).toMatchObject({ code: 0 });
  };
  await keys(sqld.url, 'create', '--user', 'u', '--name', 'younger');
  const primary = openDatabase(sqld.url);
  await primary.execute("INSERT INTO nicknames (nickname, at_ms) VALUES ('older', 1)");
  const replica = join(folder, 'replica.db');
  await using server = await startServer({ env: { ...env, DATABASE_REPLICA_FILE: replica }, root });
  const nicknamesIn = async (db: Client) =>
    (await db.execute('SELECT nickname FROM nicknames')).rows.map(({ nickname }) => nickname);
  await waitFor(async () => (await replicaOf(server)) === 'in_use');
  await waitFor(async () => (await nicknamesIn(primary)).length === 1); // upkeep begins after two seconds
  expect(await nicknamesIn(primary)).toEqual(['younger']);
  primary.close();
  await keys(sqld.url, 'backup', join(folder, 'backup.db'));
  await keys(`file:${join(folder, 'restored.db')}`, 'restore', join(folder, 'backup.db'));
  for (const file of ['replica.db', 'backup.db', 'restored.db']) {
    using copy = openDatabase(`file:${join(folder, file)}`);
    expect([file, await nicknamesIn(copy)]).toEqual([file, expect.arrayContaining(['younger'])]);
  }
}, 180_000);
