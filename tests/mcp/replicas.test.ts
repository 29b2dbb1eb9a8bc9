// Two server processes on one database file, behind a balancer that sends every request to the other one.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { userHeaders } from '../support/client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { CONNECTS } from './clients.ts';

const LAG_MAX_MS = 250;

let servers: ServerProcess[] = [];
let balancer: Bun.Server<undefined>;
let sent: number[] = [];

beforeAll(async () => {
  const env = {
    JWT_SECRET: TEST_SECRET,
    DATABASE_URL: `file:${join(temporaryFolder(), 'keys.db')}`,
    REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS),
    LOG_LEVEL: 'warn',
  };
  servers = [await startServer({ env }), await startServer({ env })];
  let turn = 0;
  balancer = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      turn = 1 - turn;
      sent[turn] = (sent[turn] ?? 0) + 1;
      const { pathname, search } = new URL(request.url);
      const headers = new Headers(request.headers);
      headers.delete('host');
      return fetch(`${servers[turn]?.url}${pathname}${search}`, {
        method: request.method,
        headers,
        body: request.body,
        decompress: false,
      });
    },
  });
});

afterAll(async () => {
  balancer.stop(true);
  expect(await Promise.all(servers.map((server) => server.stop()))).toEqual([0, 0]);
});

const overHttp = CONNECTS.filter(([name]) => !name.includes('SSE'));

describe.each(overHttp)('%s', (name, connect) => {
  test('does not notice that there are two servers', async () => {
    sent = [];
    const url = `http://127.0.0.1:${balancer.port}`;
    const owner = `owner of ${name}`;
    const user = await connect(url, await userHeaders(owner));
    // biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape
    const output = async (tool: string, args: Record<string, unknown> = {}): Promise<any> => {
      const { structuredContent, isError, content } = await user.callTool({ name: tool, arguments: args });
      if (isError === true) throw new Error(JSON.stringify(content));
      return structuredContent;
    };
    const { id, key } = await output('create_api_key', { name: 'shared', scopes: ['read'] });
    const program = await connect(url, { 'x-api-key': key });
    const get = () => program.callTool({ name: 'get_data', arguments: {} });
    for (let count = 0; count < 6; count += 1) {
      expect((await get()).structuredContent).toMatchObject({ owner });
      expect((await output('list_api_keys')).keys).toMatchObject([{ id, active: true }]);
      await program.listTools();
    }
    await output('revoke_api_key', { keyId: id });
    await Bun.sleep(LAG_MAX_MS);
    for (let count = 0; count < 4; count += 1) expect((await get()).isError).toBe(true);
    await output('delete_api_key', { keyId: id });
    for (let count = 0; count < 2; count += 1) expect((await output('list_api_keys')).keys).toEqual([]);
    await Promise.all([user.close(), program.close()]);
    expect(Math.abs((sent[0] ?? 0) - (sent[1] ?? 0))).toBeLessThanOrEqual(1);
  });
});
