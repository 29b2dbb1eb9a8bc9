// Two server processes on one database file, behind a balancer that sends every request to the other one.

import { afterAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { callOver, userHeaders } from '../support/client.ts';
import { folderWith, temporaryFolder } from '../support/folder.ts';
import { startServer } from '../support/server-process.ts';
import { type Json, TEST_SECRET } from '../support/test-app.ts';
import { waitForWithin } from '../support/wait-for.ts';
import { CONNECTS } from './clients.ts';

const LAG_MAX_MS = 250;

/** Asks three times, one after the other. */
const INTERVIEW = `
import { defineTool, form, ok, type ToolDeps, v } from 'mcp-key-server';

const text = form(v.strictObject({ text: v.string() }));

export default ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    name: 'interview', title: 'Interview', description: 'Asks three times.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({ topic: v.string() }),
    output: v.strictObject({ answers: v.array(v.unknown()) }),
    run({ topic }, { ask }) {
      const answers = [];
      for (const number of [1, 2, 3]) {
        const asked = ask({ ['question ' + number]: text(topic + ' ' + number) });
        if (!asked.ok) return asked;
        answers.push(...Object.values(asked.value));
      }
      return ok({ answers });
    },
  });
`;

const env = {
  TOOLS_DIR: folderWith({ 'interview.ts': INTERVIEW }),
  JWT_SECRET: TEST_SECRET,
  DATABASE_URL: `file:${join(temporaryFolder(), 'keys.db')}`,
  REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS),
  LOG_LEVEL: 'warn',
};
const servers = [await startServer({ env }), await startServer({ env })];
let turn = 0;
let sent: number[] = [];
const balancer = Bun.serve({
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
    const output = async (tool: string, args: Record<string, unknown> = {}): Promise<Json> => {
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
    const isRefused = () =>
      get().then(
        () => false,
        (error: Error) => error.message.includes('Invalid or expired API key'), // HTTP 401
      );
    await waitForWithin(LAG_MAX_MS, async () => (await isRefused()) && (await isRefused())); // by both
    for (let count = 0; count < 4; count += 1) expect(await isRefused()).toBe(true);
    await output('delete_api_key', { keyId: id });
    for (let count = 0; count < 2; count += 1) expect((await output('list_api_keys')).keys).toEqual([]);
    await Promise.all([user.close(), program.close()]);
    expect(Math.abs((sent[0] ?? 0) - (sent[1] ?? 0))).toBeLessThanOrEqual(1);
  });
});

describe('a tool that asks three times', () => {
  const INFO = { name: 'test', version: '1.0.0' };
  const interview = { name: 'interview', arguments: { topic: 'Tea' } };

  async function transport() {
    sent = [];
    const url = `http://127.0.0.1:${balancer.port}`;
    const create = { name: 'n', scopes: [] };
    const { key } = (await callOver(url, 'create_api_key', create, await userHeaders('alice'))).body;
    return [new URL(`${url}/mcp`), { requestInit: { headers: { 'x-api-key': key } } }] as const;
  }

  test('is answered by SDK v2 through both servers in turn', async () => {
    const client = new ClientV2(INFO, {
      capabilities: { elicitation: { form: {} } },
      versionNegotiation: { mode: { pin: '2026-07-28' } },
    });
    const seen: string[] = [];
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      seen.push(params.message);
      return seen.length === 2
        ? { action: 'decline' }
        : { action: 'accept', content: { text: `answer ${seen.length}` } };
    });
    await client.connect(new HttpV2(...(await transport())));
    sent = [];
    const { structuredContent } = await client.callTool(interview);
    const accept = (text: string) => ({ action: 'accept', content: { text } });
    expect(seen).toEqual(['Tea 1', 'Tea 2', 'Tea 3']);
    expect(structuredContent).toEqual({ answers: [accept('answer 1'), { action: 'decline' }, accept('answer 3')] });
    expect(sent).toEqual([2, 2]);
    await client.close();
  });

  test('is told that SDK v1 can not be asked, whatever it declares', async () => {
    const client = new ClientV1(INFO, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, () => {
      throw new Error('asked');
    });
    await client.connect(new HttpV1(...(await transport())) as never);
    const { structuredContent } = await client.callTool(interview);
    const unavailable = { action: 'unavailable' };
    expect(structuredContent).toEqual({ answers: [unavailable, unavailable, unavailable] });
    await client.close();
  });
});
