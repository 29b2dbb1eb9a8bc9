// Many callers at once, all with the same JSON-RPC id: each gets its own owner's response, on every transport.

import { expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { everything } from '../support/everything.ts';
import { call, modern, openSse, post, request } from '../support/mcp.ts';
import { bearer, createTestApp, insertKey } from '../support/test-app.ts';
import { noInput } from '../support/tools.ts';

const KEYS = 16;
const AT_A_TIME = 32;
const CALLS = everything ? 10_000 : 3000;

/** An app with a tool that takes a few random milliseconds to say whose key it was called with, and keys to call it. */
async function startWhose() {
  const app = await createTestApp({
    env: { RATE_LIMIT_REQUESTS: '0', LOG_LEVEL: 'error' },
    tools: ({ guards }) => [
      defineTool(guards.apiKey, {
        ...noInput('whose'),
        output: v.strictObject({ owner: v.string() }),
        async run(_input, { auth }) {
          await Bun.sleep(Math.random() * 4);
          return ok({ owner: auth.subject });
        },
      }),
    ],
  });
  const owners = Array.from({ length: KEYS }, (_, index) => `owner-${index}`);
  const keys = await Promise.all(owners.map((owner) => insertKey(app, owner)));
  return { app, keys };
}

/** Makes a call with the key of this index, and returns the owner it heard. */
type CallAs = (key: number) => Promise<string>;

/** Runs CALLS calls in AT_A_TIME lanes; `callsOf` makes what calls in one, with the key of its index or with any. */
async function wrongResponses(callsOf: (lane: number) => Promise<CallAs>, ownKey = false): Promise<string[]> {
  const wrong: string[] = [];
  let made = 0;
  const run = async (_: unknown, lane: number) => {
    const callAs = await callsOf(lane);
    while (made < CALLS) {
      const key = (ownKey ? lane : made * 7 + lane) % KEYS;
      made += 1;
      const owner = await callAs(key);
      if (owner !== `owner-${key}`) wrong.push(`${owner} instead of owner-${key}`);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, run));
  return wrong;
}

test.each([
  ['before 2026-07-28', { body: call('whose'), headers: {} }],
  ['of 2026-07-28', modern('tools/call', { name: 'whose' })],
])(
  'no cross-talk on /mcp %s',
  async (_era, { body, headers }) => {
    const { app, keys } = await startWhose();
    const callAs: CallAs = async (key) => {
      const response = await post(app, JSON.stringify(body), { ...headers, 'x-api-key': keys[key] ?? '' });
      return response.body.result.structuredContent.owner;
    };
    expect(await wrongResponses(async () => callAs)).toEqual([]);
    await app.close();
  },
  180_000,
);

test('no cross-talk on /sse', async () => {
  const { app, keys } = await startWhose();
  // A session belongs to one owner: each lane has a stream, and calls with the key of that owner.
  const onStream = async (lane: number): Promise<CallAs> => {
    const session = await openSse(app, { 'x-api-key': keys[lane % KEYS] ?? '' });
    return async () => {
      const { status } = await session.post(call('whose'));
      if (status !== 202) return `status ${status}`;
      return (await session.nextMessage()).result.structuredContent.owner;
    };
  };
  expect(await wrongResponses(onStream, true)).toEqual([]);
  await app.close();
}, 180_000);

test('a new key is seen on the stream that asked for it, and on no other', async () => {
  await using app = await createTestApp();
  const alice = await bearer(app, 'alice');
  const asked = await openSse(app, alice);
  const others = await Promise.all(
    Array.from({ length: 20 }, async (_, index) =>
      openSse(app, index % 2 === 0 ? alice : await bearer(app, `user-${index}`)),
    ),
  );
  await asked.post(call('create_api_key', { name: 'mine', scopes: [] }));
  const { key } = (await asked.nextMessage()).result.structuredContent;
  expect(key).toStartWith('sk_test_');
  for (const other of others) {
    await other.post(request('ping', undefined, 'what came first'));
    expect(await other.nextMessage()).toEqual({ jsonrpc: '2.0', id: 'what came first', result: {} });
  }
});
