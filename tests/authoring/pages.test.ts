// A tool that hands out its output in pages: every transport sends the same as if it had been one object.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, type Tool } from '../../src/authoring/tool.ts';
import { err, ok } from '../../src/lib/result.ts';
import { call, openSse, post, postModern } from '../support/mcp.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { anyone, facts } from '../support/tools.ts';

const KiB = 1024;

/** Hands out each of `pages`, until there is no room. */
function pagedTool(pages: () => Iterable<readonly string[]>, seen = { added: 0 }): Tool {
  return defineTool(anyone, {
    ...facts('paged'),
    input: v.strictObject({}),
    output: v.strictObject({ items: v.array(v.pipe(v.string(), v.maxLength(4096 * KiB))) }),
    async runInPages(_input, _call, add) {
      for (const items of pages()) {
        if (!add({ items: [...items] })) return err({ code: 'overloaded' });
        seen.added += 1;
      }
      return ok(undefined);
    },
  });
}

const ITEM = 'xü€🔑 "quoted" \\ \n';
const page = (count: number) => Array.from({ length: count }, (_, index) => `${index}: ${ITEM}`);
const PAGES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'one page': [page(3)],
  'one empty page': [[]],
  'two small pages': [page(3), ['last']],
  'many pages, some empty': [[], page(500), [], page(2000), page(1), []],
};

/** What each transport sends. */
const TRANSPORTS: Readonly<Record<string, (app: TestApp) => Promise<unknown>>> = {
  MCP: async (app) => (await post(app, call('paged'))).body.result,
  'MCP, in a batch': async (app) => (await post(app, [call('paged'), { ...call('paged'), id: 2 }])).body[1].result,
  'MCP 2026-07-28': async (app) => {
    const { content, structuredContent } = (await postModern(app, 'tools/call', { name: 'paged' })).body.result;
    return { content, structuredContent };
  },
  'MCP, as an event': async (app) => {
    const response = await fetch(`${app.url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify(call('paged')),
    });
    return JSON.parse(/^event: message\ndata: (.*)\n\n$/.exec(await response.text())?.[1] ?? '').result;
  },
  SSE: async (app) => {
    const session = await openSse(app);
    await session.post(call('paged'));
    return (await session.nextMessage()).result;
  },
};

describe.each(Object.entries(PAGES))('%s', (_what, pages) => {
  const output = { items: pages.flat() };

  test('a list in pages is whole over REST', async () => {
    await using app = await createTestApp({ tools: () => [pagedTool(() => pages)] });
    expect((await app.call('paged')).body).toEqual(output);
  });

  test.each(Object.entries(TRANSPORTS))('a list in pages is whole over %s', async (_transport, resultOver) => {
    await using app = await createTestApp({ tools: () => [pagedTool(() => pages)] });
    const text = JSON.stringify(output);
    expect(await resultOver(app)).toEqual({ content: [{ type: 'text', text }], structuredContent: output });
  });
});

test('a page that does not fit the schema is a bug, and fails its call alone', async () => {
  const broken = pagedTool(() => [['x'], [1 as unknown as string]]);
  await using app = await createTestApp({ tools: () => [broken] });
  expect((await app.call('paged')).status).toBe(500);
  const [line] = (await app.log()).filter(({ event }) => event === 'internal error');
  expect(JSON.stringify(line)).toContain('paged: the output does not fit its schema: items.0');
});

/** As they would be together: more than the server holds for all clients. */
function* tooMany() {
  for (let count = 0; count < 40; count += 1) yield ['x'.repeat(1024 * KiB)];
}

test('a list that finds no room is refused while it grows, with a hint when to try again, and leaves nothing behind', async () => {
  const seen = { added: 0 };
  await using app = await createTestApp({ tools: () => [pagedTool(tooMany, seen)] });
  for (let times = 0; times < 2; times += 1) {
    seen.added = 0;
    const { status, body, headers } = await app.call('paged');
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'overloaded', '1']);
    expect(seen.added).toBe(31); // of 32 MiB, less the quotes around them
  }
  const { result } = (await post(app, call('paged'))).body;
  expect([result.isError, result.content[1].text]).toEqual([true, 'Try again in 1 s']);
}, 60_000);
