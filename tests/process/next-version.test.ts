// A server of the next version starts beside one of this, and this one is stopped later, as in a rolling upgrade.

import { describe, expect, test } from 'bun:test';
import { callOver, userHeaders } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { diskFolder } from '../support/folder.ts';
import { nextVersion } from '../support/next-version.ts';
import { logOf, runToExit, type ServerProcess, startServer, untilOpen } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitForWithin } from '../support/wait-for.ts';

/** REVOCATION_LAG_MAX_MS. */
const LAG_MAX_MS = 1000;

const create = async ({ url }: ServerProcess) =>
  (await callOver(url, 'create_api_key', { name: 'k', scopes: ['read'] }, await userHeaders('alice'))).body;
const revoke = async ({ url }: ServerProcess, keyId: string) =>
  callOver(url, 'revoke_api_key', { keyId }, await userHeaders('alice'));
const used = async ({ url }: ServerProcess, key: string) =>
  (await callOver(url, 'get_data', {}, { 'x-api-key': key })).status;

describe.each(rows(['a file', 'sqld'] as const, 1))('on %s', (place) => {
  async function placed(started: AsyncDisposableStack): Promise<Record<string, string>> {
    const folder = diskFolder();
    const where = place === 'sqld' ? started.use(await startSqld()).env : { DATABASE_URL: `file:${folder}/keys.db` };
    return { JWT_SECRET: TEST_SECRET, LOG_LEVEL: 'warn', ...where };
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
    const db = openDatabase(env.DATABASE_URL ?? '');
    const { rows } = await db.execute('SELECT key_id FROM nicknames');
    db.close();
    expect(rows.map(({ key_id }) => key_id).sort()).toEqual([keys[1].id, keys[2].id].sort());
    expect(await old.stop()).toBe(0);
    expect(logOf(old).filter(({ event }) => event !== 'Invalid or expired API key')).toEqual([]);
    expect(await used(next, keys[2].key)).toBe(200);
    const { code, stderr } = await runToExit({ env });
    expect([code, stderr]).toEqual([1, expect.stringContaining('written by a newer version of this program')]);
  }, 60_000);
});
