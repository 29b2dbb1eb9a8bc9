// A start that fails for anything but the database adds nothing to it: the version before can be started again.

import { describe, expect, test } from 'bun:test';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { failingStartOn } from '../support/failing-start.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { MIGRATIONS } from '../support/next-version.ts';
import { type Runtime, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const TOOL = `import { defineTool, ok, sequence, v } from 'mcp-key-server';
export default (deps) => {
  const { url } = deps.settings({ url: ['TOOL_URL', v.string()] });
  return [];
};
`;

/** What a database has in which no migration was applied yet. */
const LEDGER =
  'CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at_ms INTEGER NOT NULL) STRICT';

describe.each(rows(['bun', 'deno'] as const, 1))('on %s', (runtime: Runtime) => {
  /** A folder with a database that lacks all migrations, and how many were applied since. */
  async function withLedger() {
    const folder = fill(diskFolder(), { 'data/.keep': '' });
    const db = openDatabase(`file:${join(folder, 'data/keys.db')}`);
    await db.execute(LEDGER);
    const applied = async () => {
      const { rows } = await db.execute('SELECT count(*) AS applied FROM schema_migrations');
      db.close();
      return Number(rows[0]?.applied);
    };
    return { folder, applied };
  }

  async function failsOn(env: Record<string, string>, tool?: string) {
    const { folder, applied } = await withLedger();
    const own = { JWT_SECRET: TEST_SECRET, DATABASE_URL: `file:${folder}/data/keys.db` };
    const tools = tool === undefined ? {} : { TOOLS_DIR: join(fill(folder, { 'tools/own.ts': tool }), 'tools') };
    const { code, stderr } = await failingStartOn(runtime, { ...own, ...tools, ...env });
    return { code, stderr, applied: await applied() };
  }

  test.each([
    ['a tool whose setting is missing', {}, TOOL],
    ['a tool file that is none', {}, 'export default 5;'],
    ['a variable that is wrong', { RATE_LIMIT_WINDOW: 'x' }, undefined],
    ['a certificate that is not there', { TLS_CERT_FILE: 'none.pem', TLS_KEY_FILE: 'none.key' }, undefined],
  ] as [string, Record<string, string>, string | undefined][])(
    '%s: the database is as it was',
    async (_, env, tool) => {
      expect(await failsOn(env, tool)).toMatchObject({ code: 1, applied: 0 });
    },
  );

  test('a port that is in use: the database is as it was', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', () => resolve()));
    const { port } = taken.address() as { port: number };
    expect(await failsOn({ PORT: String(port) })).toEqual({
      code: 1,
      applied: 0,
      stderr: `mcp-key-server: HOST, PORT: expected an address to listen on, but port ${port} of 127.0.0.1 is in use\n`,
    });
    taken.close();
  });

  test('a start that succeeds has migrated, and a request that comes first is answered', async () => {
    const { folder, applied } = await withLedger();
    await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET }, folder, runtime });
    expect((await fetch(`${server.url}/mcp/health`)).status).toBe(200);
    expect(await applied()).toBe(MIGRATIONS.length);
  });
});
