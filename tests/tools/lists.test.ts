// Lists under way: one for each user, until its response has left, so that no user's lists hold up another's.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { KEYS_PER_USER_MAX } from '../../src/keys/operations.ts';
import type { Resource } from '../../src/mcp/resource.ts';
import { deafClient } from '../support/deaf-client.ts';
import { postText } from '../support/http-socket.ts';
import { call, modern, openSse, post, request } from '../support/mcp.ts';
import { bearer, createTestApp, insertKey, type TestApp } from '../support/test-app.ts';

/** The most that a key may have: together 2,000 characters. */
const LARGEST_SCOPES = Array.from({ length: 20 }, (_, index) => `${index}:`.padEnd(100, 'x'));
/** Enough for lists that are not over at once. */
const CAROLS_KEYS = 100;
const LIST = call('list_api_keys');

let app: TestApp;
/** Of each user; made before, so that requests leave in the order in which they are written here. */
const headersOf = new Map<string, { authorization: string }>();
beforeAll(async () => {
  app = await createTestApp();
  for (const user of ['alice', 'bob', 'carol']) headersOf.set(user, await bearer(app, user));
  for (let n = 0; n < KEYS_PER_USER_MAX; n += 1) await insertKey(app, 'alice', LARGEST_SCOPES);
  for (let n = 0; n < CAROLS_KEYS; n += 1) await insertKey(app, 'carol', LARGEST_SCOPES);
  await insertKey(app, 'bob');
});
afterAll(() => app.close());

const list = (user: 'alice' | 'bob' | 'carol') => app.call('list_api_keys', {}, headersOf.get(user));

/** True once `promise` is settled and everything that was due by then has been done. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  void promise.then(() => {
    settled = true;
  });
  await list('bob'); // a whole request, from socket to socket
  return settled;
}

test('a list that its client does not read holds up the next one of its user, and nobody else', async () => {
  const { authorization } = await bearer(app, 'alice');
  const deaf = deafClient(app.url, postText('/mcp', JSON.stringify(LIST), { Authorization: authorization }));
  while ((await isSettled(list('alice'))) === true); // until the unread one is on its way
  const next = list('alice');
  expect((await list('bob')).body.keys).toHaveLength(1);
  expect(await isSettled(next)).toBe(false);
  deaf[Symbol.dispose]();
  const { status, body } = await next;
  expect([status, body.keys.length]).toEqual([200, KEYS_PER_USER_MAX]);
}, 60_000);

test('a list that has waited five seconds for its turn is refused', async () => {
  const { authorization } = await bearer(app, 'alice');
  const deaf = deafClient(app.url, postText('/mcp', JSON.stringify(LIST), { Authorization: authorization }));
  while ((await isSettled(list('alice'))) === true); // until the unread one is on its way
  const next = list('alice');
  expect(await isSettled(next)).toBe(false);
  app.clock.advance(4999);
  expect(await isSettled(next)).toBe(false);
  app.clock.advance(1);
  const { status, body } = await next;
  expect([status, body.code]).toEqual([503, 'overloaded']);
  deaf[Symbol.dispose]();
  expect((await list('alice')).status).toBe(200);
}, 60_000);

test('of many lists at once all are returned, or refused at once beyond those that may wait', async () => {
  // Of a user who has no list under way: one that has just been sent may still have its turn.
  const responses = await Promise.all(Array.from({ length: 40 }, () => list('carol')));
  const refused = responses.filter(({ status }) => status !== 200);
  expect(responses.length - refused.length).toBeGreaterThanOrEqual(1 + 16);
  for (const { status, body, headers } of refused) {
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'overloaded', '1']);
  }
}, 60_000);

/** Each leaves a list behind in another way. Were its turn not given back, the next one would wait, and be refused. */
const WAYS: Readonly<Record<string, () => Promise<unknown>>> = {
  'over REST': () => list('alice'),
  'over MCP': async () => post(app, LIST, await bearer(app, 'alice')),
  'over MCP 2026-07-28': async () => {
    const { body, headers } = modern('tools/call', { name: 'list_api_keys', arguments: {} });
    return post(app, body, { ...headers, ...(await bearer(app, 'alice')) });
  },
  'twice in a batch': async () =>
    post(app, [LIST, { ...LIST, id: 2 }, request('ping', {}, 3)], await bearer(app, 'alice')),
  'over SSE': async () => {
    const session = await openSse(app, await bearer(app, 'bob'));
    await session.post(LIST);
    await session.nextMessage();
  },
  'for a client that goes away': async () => {
    const gone = new AbortController();
    const response = fetch(`${app.url}/tools/list_api_keys`, {
      method: 'POST',
      headers: await bearer(app, 'alice'),
      signal: gone.signal,
    });
    gone.abort();
    await response.catch(() => {});
  },
};

describe('a list gives its turn back', () => {
  test.each(Object.entries(WAYS))(
    '%s',
    async (_way, leave) => {
      await leave();
      await leave();
      expect((await list('alice')).status).toBe(200);
      expect((await list('bob')).status).toBe(200);
    },
    60_000,
  );
});

test('a batch that fails after its list gives the turn back', async () => {
  const broken: Resource = {
    uri: 'test://broken',
    name: 'broken',
    title: 'Broken',
    description: 'Throws.',
    mimeType: 'text/plain',
    read() {
      throw new Error('broken');
    },
  };
  await using failing = await createTestApp({ resources: [broken] });
  const user = await bearer(failing, 'carol');
  const batch = [LIST, request('resources/read', { uri: broken.uri }, 2)];
  expect((await post(failing, batch, user)).status).toBe(500);
  expect((await failing.call('list_api_keys', {}, user)).status).toBe(200);
}, 60_000);
