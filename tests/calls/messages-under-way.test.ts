// How much of the memory calls that wait may hold with their messages, also when their clients have hung up.

import { expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { postJsonText } from '../support/client.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { anyone, facts } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

const MESSAGE_BYTES = 1024 * 1024;
const ALL_MAX = 64; // messages of that length

const filled = (members: string, bytes: number) => {
  const body = `{${members}"text":""}`;
  return body.replace('""', `"${'x'.repeat(bytes - body.length)}"`);
};

/** An app with the tool `wait`, which returns when it is told to. */
async function startWaiting() {
  const { promise: told, resolve: finish } = Promise.withResolvers<void>();
  const calls = { running: 0 };
  const wait = defineTool(anyone, {
    ...facts('wait'),
    input: v.strictObject({ text: v.string() }),
    async run() {
      calls.running += 1;
      await told;
      calls.running -= 1;
      return ok({ content: [] });
    },
  });
  const app = await createTestApp({ tools: () => [wait] });
  return { app, calls, finish };
}

const send = (app: TestApp, path: string, body: string, signal?: AbortSignal) =>
  postJsonText(app.url + path, body, {}, signal);

const LARGE = filled('', MESSAGE_BYTES);
const SMALL = filled('', 16 * 1024);

test('calls that wait hold 64 MiB, also when their clients hang up; what comes then is refused', async () => {
  const { app, calls, finish } = await startWaiting();
  await using _ = app;
  const hangUp = new AbortController();
  const dropped = Array.from({ length: ALL_MAX }, () => send(app, '/tools/wait', LARGE, hangUp.signal));
  await waitFor(() => calls.running === ALL_MAX);
  hangUp.abort();
  await Promise.allSettled(dropped);

  app.clock.advance(60_000 - 1); // however long they are still, there is nothing to cut off
  const refused = await send(app, '/tools/wait', LARGE);
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('1');
  expect(await refused.json()).toMatchObject({ code: 'overloaded' });
  const rpc = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'wait', arguments: { text: '' } } };
  const overMcp = JSON.stringify(rpc).replace('""', `"${'x'.repeat(100_000)}"`);
  // Before it is read, so nobody knows its id yet.
  expect((await send(app, '/mcp', overMcp)).status).toBe(503);
  expect((await send(app, '/mcp', `[${overMcp}]`)).status).toBe(503);
  expect(calls.running).toBe(ALL_MAX);

  const small = send(app, '/tools/wait', SMALL);
  await waitFor(() => calls.running === ALL_MAX + 1);
  finish();
  expect((await small).status).toBe(200);
  await waitFor(() => calls.running === 0);
  const after = Array.from({ length: ALL_MAX }, () => send(app, '/tools/wait', LARGE));
  expect((await Promise.all(after)).map(({ status }) => status)).toEqual(after.map(() => 200));
});

test('what is refused or invalid holds nothing', async () => {
  const { app, calls, finish } = await startWaiting();
  await using _ = app;
  const invalid = filled('"other":1,', MESSAGE_BYTES);
  for (let count = 0; count <= ALL_MAX; count += 1) {
    expect((await send(app, '/tools/wait', invalid)).status).toBe(400);
  }
  const waiting = Array.from({ length: ALL_MAX }, () => send(app, '/tools/wait', LARGE));
  await waitFor(() => calls.running === ALL_MAX);
  finish();
  expect(new Set((await Promise.all(waiting)).map(({ status }) => status))).toEqual(new Set([200]));
});
