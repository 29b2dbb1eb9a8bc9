// The official clients against the started server, over the network: a key from its creation to its end.

import { afterAll, describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { userHeaders } from '../support/client.ts';
import { startServer } from '../support/server-process.ts';
import { createTestApp, type Json, TEST_SECRET } from '../support/test-app.ts';
import { anyone, CONTENT_BLOCKS, facts, SERVER_TOOLS as TOOLS } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';
import { CONNECTS, type Connect, type Connected, type ToolResult } from './clients.ts';

const WIDGETS = ['ui://widget/api-key-created.html', 'ui://widget/api-keys-list.html'];

const server = await startServer({ env: { JWT_SECRET: TEST_SECRET, LOG_LEVEL: 'warn' } });
afterAll(async () => {
  expect(await server.stop()).toBe(0);
});

const output = (result: ToolResult): Json => {
  if (result.isError === true || result.structuredContent === undefined) throw new Error(JSON.stringify(result));
  return result.structuredContent;
};

const refusal = (sentence: string) =>
  expect.objectContaining({ isError: true, content: [{ type: 'text', text: sentence }] });

async function withClient<T>(
  connect: Connect,
  headers: Record<string, string>,
  use: (client: Connected) => Promise<T>,
): Promise<T> {
  const client = await connect(server.url, headers);
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

describe.each(CONNECTS)('%s', (name, connect) => {
  test('sees the tools and resources without a credential', async () => {
    await withClient(connect, {}, async (client) => {
      const names = (await client.listTools()).tools.map((tool) => tool.name);
      expect(names.slice(0, TOOLS.length)).toEqual(TOOLS); // your own tools come after these
      const uris = (await client.listResources()).resources.map((resource) => resource.uri);
      expect(uris.slice(0, WIDGETS.length)).toEqual(WIDGETS);
    });
  });

  test('takes a key through its life', async () => {
    const owner = `owner of ${name}`;
    const user = await userHeaders(owner);
    const get = { name: 'get_data', arguments: {} };
    const { id, key } = await withClient(connect, user, async (client) => {
      const input = { name: 'lifecycle', scopes: ['read'], expiresInDays: 1 };
      const created = output(await client.callTool({ name: 'create_api_key', arguments: input }));
      expect(created.key).toMatch(/^sk_test_[0-9a-f]{64}$/);
      return created;
    });
    await withClient(connect, { 'x-api-key': key }, async (program) => {
      expect(output(await program.callTool(get)).owner).toBe(owner);
      await withClient(connect, user, async (client) => {
        const [listed] = output(await client.callTool({ name: 'list_api_keys', arguments: {} })).keys;
        expect(listed).toMatchObject({ id, active: true, lastUsedAt: expect.any(Number) });
        const revoked = await client.callTool({ name: 'revoke_api_key', arguments: { keyId: id } });
        expect(output(revoked)).toEqual({ success: true, message: 'API key revoked successfully' });
        await expect(program.callTool(get)).rejects.toThrow('Invalid or expired API key'); // HTTP 401
        const deleted = await client.callTool({ name: 'delete_api_key', arguments: { keyId: id } });
        expect(output(deleted)).toEqual({ success: true, message: 'API key deleted permanently' });
        expect(output(await client.callTool({ name: 'list_api_keys', arguments: {} })).keys).toEqual([]);
      });
    });
  });

  test('reads why it is refused', async () => {
    await withClient(connect, {}, async (client) => {
      expect(await client.callTool({ name: 'get_data', arguments: {} })).toEqual(refusal('No API key provided'));
      expect(await client.callTool({ name: 'list_api_keys', arguments: {} })).toEqual(
        refusal('No user token provided'),
      );
    });
    await withClient(connect, { authorization: 'Bearer nonsense' }, async (client) => {
      expect(await client.callTool({ name: 'list_api_keys', arguments: {} })).toEqual(
        refusal('Invalid or expired user token'),
      );
    });
    await withClient(connect, await userHeaders('bob'), async (client) => {
      const result = await client.callTool({ name: 'create_api_key', arguments: { name: '', scopes: [] } });
      expect(result.isError).toBe(true);
      expect(JSON.stringify(result.content)).toContain('- name: Expected 1 to 200 characters');
      await expect(client.callTool({ name: 'nope', arguments: {} })).rejects.toThrow();
    });
  });
});

// What valibot accepts and JSON Schema, or a client that knows an older draft of it, has stricter words for.
const tree: v.GenericSchema = v.strictObject({ children: v.array(v.lazy(() => tree)) });
const status = (code: number) => v.strictObject({ status: v.literal(code), text: v.optional(v.string()) });
const shapes = {
  escaped: { schema: v.pipe(v.string(), v.regex(/^\w+@a{$/)), value: 'a@a{' },
  flagged: { schema: v.pipe(v.string(), v.regex(/^a$/i)), value: 'A' },
  time: { schema: v.pipe(v.string(), v.isoTime()), value: '10:30' },
  dateTime: { schema: v.pipe(v.string(), v.isoDateTime()), value: '2026-01-02T10:30' },
  timestamp: { schema: v.pipe(v.string(), v.isoTimestamp()), value: '2026-01-02 10:30:00Z' },
  length: { schema: v.pipe(v.string(), v.length(3)), value: '😀!' },
  minLength: { schema: v.pipe(v.string(), v.minLength(4)), value: '😀😀' },
  url: { schema: v.pipe(v.string(), v.url()), value: 'https://de.wikipedia.org/wiki/Köln' },
  email: { schema: v.pipe(v.string(), v.rfcEmail()), value: 'root@localhost' },
  address: { schema: v.pipe(v.string(), v.ipv6()), value: 'fe80::1%eth0' },
  variant: { schema: v.variant('status', [status(200), status(404)]), value: { status: 404 } },
  strictTuple: { schema: v.strictTuple([v.string(), v.number()]), value: ['a', 1] },
  tupleWithRest: { schema: v.tupleWithRest([v.string()], v.number()), value: ['a', 1, 2] },
  tree: { schema: tree, value: { children: [{ children: [] }] } },
  nullable: { schema: v.nullable(v.picklist([1, 'a'])), value: null },
};

test.each(CONNECTS)('%s takes what tools of one’s own may return', async (_name, connect) => {
  const input = v.strictObject({});
  const content = defineTool(anyone, { ...facts('content'), input, run: () => ok({ content: CONTENT_BLOCKS }) });
  const made = Object.entries(shapes).map(([name, { schema, value }]) => {
    const output = v.strictObject({ [name]: schema as v.GenericSchema });
    return defineTool(anyone, { ...facts(name), input, output, run: () => ok({ [name]: value }) });
  });
  await using app = await createTestApp({ tools: () => [content, ...made] });
  const client = await connect(app.url, {});
  expect((await client.listTools()).tools).toHaveLength(1 + made.length);
  for (const [name, { value }] of Object.entries(shapes)) {
    expect(output(await client.callTool({ name, arguments: {} }))).toEqual({ [name]: value });
  }
  expect((await client.callTool({ name: 'content', arguments: {} })).content).toEqual(CONTENT_BLOCKS);
  await client.close();
});

test('the connections the clients left behind are gone', async () => {
  const health = async () => (await (await fetch(`${server.url}/mcp/health`)).json()) as { sessions: number };
  await waitFor(async () => (await health()).sessions === 0);
});
