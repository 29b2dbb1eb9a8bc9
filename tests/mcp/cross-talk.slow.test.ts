// Many callers at once, all with the same JSON-RPC id: each gets its own owner's response, on every transport.

import { expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { call, modern, openSse, post, request } from '../support/mcp.ts';
import { bearer, createTestApp, insertKey } from '../support/test-app.ts';
import { facts } from '../support/tools.ts';

const KEYS = 16;
const AT_A_TIME = 32;
const CALLS = 10_000;

/** An app with a tool that takes a few random milliseconds to say whose key it was called with, and keys to call it. */
async function startWhose() {
  const app = await createTestApp({
    env: { RATE_LIMIT_REQUESTS: '0', LOG_LEVEL: 'error' },
    tools: ({ guards }) => [
      defineTool(guards.apiKey, {
        ...facts('whose'),
        input: v.strictObject({}),
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
  return { app, owners, keys };
}

/**
 * Runs CALLS calls, AT_A_TIME at a time; `callAs` makes one for the key of that index and returns the owner it heard.
 */
async function wrongResponses(callAs: (key: number) => Promise<string>): Promise<string[]> {
  const wrong: string[] = [];
  let made = 0;
  const lane = async (_: unknown, number: number) => {
    while (made < CALLS) {
      const key = (made * 7 + number) % KEYS;
      made += 1;
      const owner = await callAs(key);
      if (owner !== `owner-${key}`) wrong.push(`${owner} instead of owner-${key}`);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, lane));
  return wrong;
}

test('no cross-talk on /mcp before 2026-07-28', async () => {
  const { app, keys } = await startWhose();
  const body = JSON.stringify(call('whose'));
  const wrong = await wrongResponses(async (key) => {
    const response = await post(app, body, { 'x-api-key': keys[key] ?? '' });
    return response.body.result.structuredContent.owner;
  });
  expect(wrong).toEqual([]);
  await app.close();
}, 180_000);

test('no cross-talk on /mcp of 2026-07-28', async () => {
  const { app, keys } = await startWhose();
  const { body, headers } = modern('tools/call', { name: 'whose' });
  const wrong = await wrongResponses(async (key) => {
    const response = await post(app, JSON.stringify(body), { ...headers, 'x-api-key': keys[key] ?? '' });
    return response.body.result.structuredContent.owner;
  });
  expect(wrong).toEqual([]);
  await app.close();
}, 180_000);

test('no cross-talk on /sse', async () => {
  const { app, keys } = await startWhose();
  const body = JSON.stringify(call('whose'));
  // A session belongs to one owner: each lane has a stream, and calls with the key of that owner.
  const sessions = await Promise.all(
    Array.from({ length: AT_A_TIME }, (_, lane) => openSse(app, { 'x-api-key': keys[lane % KEYS] ?? '' })),
  );
  const wrong: string[] = [];
  let made = 0;
  await Promise.all(
    sessions.map(async (session, lane) => {
      while (made < CALLS) {
        made += 1;
        const { status } = await session.post(body);
        const owner = (await session.nextMessage()).result.structuredContent.owner;
        if (status !== 202 || owner !== `owner-${lane % KEYS}`) wrong.push(`${owner} on the stream of lane ${lane}`);
      }
    }),
  );
  expect(wrong).toEqual([]);
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
