// Connections are held open beyond their idle timeout while a response is still to come on them, and no longer.

import { expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { call } from '../support/mcp.ts';
import { createTestApp } from '../support/test-app.ts';
import { anyone, noInput } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

/** A service whose tool `slow` may take two minutes, and returns from its calls one after the other, when told to. */
async function startSlow() {
  const running: (() => void)[] = [];
  /** Has the next call return, once it runs. */
  async function finish(): Promise<void> {
    await waitFor(() => running.length > 0);
    running.shift()?.();
  }
  const app = await createTestApp({
    tools: () => [
      defineTool(anyone, {
        ...noInput('slow'),
        timeoutMs: 120_000,
        output: v.strictObject({}),
        async run() {
          await new Promise<void>((resolve) => running.push(resolve));
          return ok({});
        },
      }),
    ],
  });
  const held: string[] = [];
  const peer = {
    address: () => '127.0.0.1',
    holdOpen: ({ method, url }: Request, hold: boolean) =>
      void held.push(`${method} ${new URL(url).pathname} ${hold ? 'held' : 'let go'}`),
  };
  const fetch = (path: string, init: RequestInit) =>
    app.handler.fetch(new Request(app.url + path, { method: 'POST', ...init }), peer);
  return { app, fetch, held, finish, [Symbol.asyncDispose]: () => app.close() };
}

const json = (body: object) => ({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
const callSlow = (id: number) => ({ ...call('slow'), id });

test.each([
  ['/tools/slow', {}],
  ['/mcp', callSlow(1)],
])('POST %s is held open until the tool has returned', async (path, body) => {
  await using slow = await startSlow();
  const response = slow.fetch(path, json(body));
  await waitFor(() => slow.held.length > 0);
  expect(slow.held).toEqual([`POST ${path} held`]);
  await slow.finish();
  expect((await response).status).toBe(200);
  expect(slow.held).toEqual([`POST ${path} held`, `POST ${path} let go`]);
});

test('a batch holds its connection open until the last of its calls is done', async () => {
  await using slow = await startSlow();
  const response = slow.fetch('/mcp', json([callSlow(1), callSlow(2)]));
  await waitFor(() => slow.held.length > 0);
  await slow.finish();
  await Bun.sleep(5);
  expect(slow.held).not.toContain('POST /mcp let go');
  await slow.finish();
  expect(await (await response).json()).toHaveLength(2);
  expect(slow.held.at(-1)).toBe('POST /mcp let go');
});

test('POST /messages gets its response at once: only the stream that the response comes on is held open', async () => {
  await using slow = await startSlow();
  const stream = await slow.fetch('/sse', { method: 'GET' });
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
  const [, endpoint = ''] = /data: (\S+)/.exec((await reader?.read())?.value ?? '') ?? [];
  expect((await slow.fetch(endpoint, json(callSlow(1)))).status).toBe(202);
  await slow.finish();
  expect((await reader?.read())?.value).toContain('"id":1');
  expect(slow.held).toEqual(['GET /sse held']);
  await reader?.cancel();
  expect(slow.held).toEqual(['GET /sse held', 'GET /sse let go']);
});
