// Lists in pages: what fits into one, that none is skipped or repeated, and how fast a user may list.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok, type ToolDeps } from '../../src/start/package/index.ts';
import { postJson } from '../support/client.ts';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { fillKeys } from '../support/fill.ts';
import { call, callAll, openSse, post, postModern } from '../support/mcp.ts';
import { BEHIND_PROXY, cameFrom } from '../support/sse-socket.ts';
import { bearer, createTestApp, listedKeys, sharedApp, type TestApp } from '../support/test-app.ts';
import { noInput } from '../support/tools.ts';

/** Of a page. */
const LIST_BYTES_MAX = 100_000;

/** The most that a key may have: together 2,000 characters. */
const LARGEST_SCOPES = Array.from({ length: 20 }, (_, index) => `${index}:`.padEnd(100, 'x'));
const BURST = 40;
const PER_S = 20;

interface Page {
  readonly keys: readonly { readonly id: string; readonly name: string }[];
  readonly nextCursor?: string;
}

/** Makes keys, and returns their ids, the newest first. */
async function makeKeys(app: TestApp, sub: string, count: number, scopes: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) ids.unshift((await app.createKey(sub, { scopes })).id);
  return ids;
}

async function pageOf(app: TestApp, sub: string, cursor?: string): Promise<Page> {
  const { status, body } = await app.call(
    'list_api_keys',
    cursor === undefined ? {} : { cursor },
    await bearer(app, sub),
  );
  expect(status).toBe(200);
  expect(new TextEncoder().encode(JSON.stringify(body)).length).toBeLessThanOrEqual(LIST_BYTES_MAX);
  return body;
}

/** All pages; `between` happens after each. */
async function pagesOf(app: TestApp, sub: string, between = async (_page: Page) => {}): Promise<Page[]> {
  const pages: Page[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await pageOf(app, sub, cursor);
    pages.push(page);
    if (page.nextCursor === undefined) return pages;
    await between(page);
    cursor = page.nextCursor;
  }
}

const idsIn = (pages: readonly Page[]) => pages.flatMap(({ keys }) => keys.map(({ id }) => id));

describe('a list in pages', () => {
  test('ordinary keys come in pages of 100,000 bytes, which programs show a model whole', async () => {
    await using app = await createTestApp();
    const inputs = Array(500).fill({ name: 'test key', scopes: ['read', 'write', 'admin'] });
    await callAll(app, 'create_api_key', inputs, await bearer(app, 'alice'));
    const pages = await pagesOf(app, 'alice');
    const bytes = pages.slice(0, -1).map((page) => JSON.stringify(page).length);
    expect(Math.max(...bytes)).toBeLessThanOrEqual(100_000);
    expect(Math.min(...bytes)).toBeGreaterThan(99_000);
    expect(new Set(idsIn(pages)).size).toBe(500);
  }, 180_000);

  test('of the largest keys a page has as many as fit, and all pages have every key once, in order; others’ are empty', async () => {
    await using app = await createTestApp();
    const ids = await makeKeys(app, 'alice', 180, LARGEST_SCOPES); // all of one millisecond
    const pages = await pagesOf(app, 'alice');
    expect(pages.map(({ keys }) => keys.length)).toEqual([...Array(4).fill(44), 4]);
    expect(idsIn(pages)).toEqual(ids);
    expect(await pageOf(app, 'bob', pages[0]?.nextCursor)).toEqual({ keys: [] });
  }, 180_000);

  test('a tool of one’s own that sets no bound lists all keys in pages, too', async () => {
    const all = ({ guards, keys }: ToolDeps) =>
      defineTool(guards.userJwt, {
        ...noInput('all_keys'),
        output: v.strictObject({ pages: v.array(v.array(v.string())) }),
        async run(_input, { auth, requestId, clientAddress }) {
          const { subject: userId, actor, grantable } = auth;
          const who = { userId, actor, grantable, requestId, clientAddress };
          const pages: string[][] = [];
          for (let after: Parameters<typeof keys.list>[1] = null; ; ) {
            const page = await keys.list(who, after);
            if (!page.ok) return page;
            pages.push(page.value.keys.map(({ id }) => id));
            if (!page.value.hasMore) return ok({ pages });
            after = page.value.keys.at(-1) ?? null;
          }
        },
      });
    await using app = await createTestApp({ store: 'embedded', tools: (deps) => [all(deps)] });
    using db = openDatabase(databaseOf(app));
    await fillKeys(db, 1000);
    await db.execute("UPDATE api_keys SET user_id = 'alice'");
    const { status, body } = await app.call('all_keys', {}, await bearer(app, 'alice'));
    expect([status, body.pages.length]).toEqual([200, 2]);
    expect(new Set(body.pages.flat()).size).toBe(1000);
  });

  test('what is made, deleted or revoked between two pages makes no other key appear twice or not at all', async () => {
    await using app = await createTestApp();
    const ids = await makeKeys(app, 'alice', 180, LARGEST_SCOPES);
    const alice = await bearer(app, 'alice');
    const deleted: string[] = [];
    const pages = await pagesOf(app, 'alice', async ({ keys }) => {
      const shown = ids.indexOf(keys.at(-1)?.id ?? '');
      const ended = [ids[0], ids[shown], ids[shown + 1], ids[shown - 1]].filter((id) => id !== undefined);
      for (const keyId of ended) await app.call('delete_api_key', { keyId }, alice);
      deleted.push(...ended);
      await app.call('revoke_api_key', { keyId: ids[shown + 2] }, alice);
      await app.createKey('alice', { scopes: LARGEST_SCOPES }); // newer, of the same millisecond
    });
    const listed = idsIn(pages);
    expect(new Set(listed).size).toBe(listed.length);
    const stayed = ids.filter((id) => !deleted.includes(id));
    expect(listed.filter((id) => stayed.includes(id))).toEqual(stayed);
  }, 180_000);

  test('names that grow when they are encoded count as they are sent', async () => {
    await using app = await createTestApp();
    const inputs = Array(450).fill({ name: '"'.repeat(200), scopes: [] });
    await callAll(app, 'create_api_key', inputs, await bearer(app, 'alice'));
    const pages = await pagesOf(app, 'alice');
    expect(pages.length).toBe(3);
    expect(new Set(idsIn(pages)).size).toBe(450);
  }, 180_000);

  test('a key that is larger than a page is a page, and scopes typed with spaces hide no key', async () => {
    await using app = await createTestApp({ store: 'embedded' });
    const [newest, large, spaced, oldest] = await makeKeys(app, 'alice', 4, ['read']);
    using shell = openDatabase(databaseOf(app));
    const type = (id: string | undefined, scopes: string) =>
      shell.execute({ sql: 'UPDATE api_keys SET scopes = ? WHERE id = ?', args: [scopes, id ?? ''] });
    await type(large, JSON.stringify(['x'.repeat(LIST_BYTES_MAX)]));
    await type(spaced, `[${' '.repeat(LIST_BYTES_MAX)}"read"]`);
    const listed = (await listedKeys(app, 'alice')).map(({ id }) => id);
    expect(listed).toEqual([newest, large, spaced, oldest]);
  });

  test('a cursor that no list gave is refused', async () => {
    await using app = await createTestApp();
    const alice = await bearer(app, 'alice');
    const issues = [{ path: 'cursor', message: 'Expected a nextCursor' }];
    const cursors = ['', '-', 'x', '1', '1-', '-1', '1-1 ', '01-1', '1.5-1', '1e3-1', '1-99999999999999999'];
    for (const cursor of [...cursors, `${'9'.repeat(99)}-1`]) {
      const { body } = await app.call('list_api_keys', { cursor }, alice);
      expect({ cursor, ...body }).toMatchObject({ cursor, status: 400, code: 'invalid_input', issues });
    }
  });
});

describe('every transport', async () => {
  const app = await sharedApp();
  await makeKeys(app, 'alice', 199, LARGEST_SCOPES);
  await app.createKey('alice', { name: 'xü€🔑 "quoted" \\', scopes: LARGEST_SCOPES });
  const expected = await pageOf(app, 'alice');

  const LIST = call('list_api_keys');
  const TRANSPORTS: Readonly<Record<string, (user: { authorization: string }) => Promise<unknown>>> = {
    MCP: async (user) => (await post(app, LIST, user)).body.result,
    'MCP, in a batch': async (user) => (await post(app, [LIST, { ...LIST, id: 2 }], user)).body[1].result,
    'MCP 2026-07-28': async (headers) => {
      const { body } = await postModern(app, 'tools/call', { name: 'list_api_keys' }, { headers });
      return { content: body.result.content, structuredContent: body.result.structuredContent };
    },
    'MCP, as an event': async (user) => {
      const response = await postJson(`${app.url}/mcp`, LIST, { accept: 'text/event-stream', ...user });
      return JSON.parse(/^event: message\ndata: (.*)\n\n$/.exec(await response.text())?.[1] ?? '').result;
    },
    SSE: async (user) => {
      const session = await openSse(app, user);
      await session.post(LIST);
      return (await session.nextMessage()).result;
    },
  };

  test.each(Object.entries(TRANSPORTS))('the largest page is whole over %s', async (_transport, resultOver) => {
    const text = JSON.stringify(expected);
    expect(await resultOver(await bearer(app, 'alice'))).toEqual({
      content: [{ type: 'text', text }],
      structuredContent: expected,
    });
  });
});

describe('a user who lists in a loop', () => {
  const statusesOf = async (app: TestApp, sub: string, count: number, headers: object = {}) => {
    const user = { ...(await bearer(app, sub)), ...headers };
    const responses = await Promise.all(Array.from({ length: count }, () => app.call('list_api_keys', {}, user)));
    return responses.map(({ status }) => status);
  };
  const countOf = (statuses: readonly number[], wanted: number) =>
    statuses.filter((status) => status === wanted).length;

  test('gets 429 beyond 40 at once and 20 a second; others do not, nor does what he changes', async () => {
    await using app = await createTestApp();
    expect(countOf(await statusesOf(app, 'alice', BURST), 200)).toBe(BURST);
    const alice = await bearer(app, 'alice');
    const over = await app.call('list_api_keys', {}, alice);
    expect([over.status, over.body.code, over.headers.get('retry-after')]).toEqual([429, 'rate_limited', '1']);
    const { result } = (await post(app, call('list_api_keys'), alice)).body;
    expect([result.isError, result.content[1].text]).toEqual([true, 'Try again in 1 s']);
    expect(await statusesOf(app, 'bob', 1)).toEqual([200]);
    expect((await app.call('create_api_key', { name: 'n', scopes: [] }, alice)).status).toBe(200);
    app.clock.advance(1000);
    expect(countOf(await statusesOf(app, 'alice', PER_S + 1), 200)).toBe(PER_S);
    const lines = (await app.log()).filter(({ event }) => event === 'Rate limit exceeded');
    expect(lines[0]).toMatchObject({ level: 'warn', userId: 'alice', suppressed: 0 });
  });

  test('gets no more with one request id for all of them, and takes nothing from others with the same one', async () => {
    await using app = await createTestApp({ env: BEHIND_PROXY });
    const one = { ...cameFrom('192.0.2.1'), 'x-request-id': 'the-same' };
    const [greedy, other] = await Promise.all([statusesOf(app, 'alice', 200, one), statusesOf(app, 'bob', 1, one)]);
    expect([countOf(greedy, 200), countOf(greedy, 429)]).toEqual([BURST, 200 - BURST]);
    expect(other).toEqual([200]);
  });

  test('has one list read at a time, so that the list of another comes between', async () => {
    await using app = await createTestApp();
    await makeKeys(app, 'alice', 180, LARGEST_SCOPES);
    await app.createKey('bob');
    const order: string[] = [];
    const one = async (sub: string) => {
      await app.call('list_api_keys', {}, await bearer(app, sub));
      order.push(sub);
    };
    const greedy = Array.from({ length: BURST }, () => one('alice'));
    await Promise.all([...greedy, one('bob')]);
    expect(order).toHaveLength(BURST + 1);
    expect(order.indexOf('bob')).toBeLessThan(BURST / 2);
  }, 180_000);
});
