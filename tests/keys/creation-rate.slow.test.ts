// How fast one user may create keys, and that nothing keeps anybody from revoking them. Thousands of writes, so on a file
// in every mode.

import { expect, test } from 'bun:test';
import { call, callAll, post } from '../support/mcp.ts';
import { actorFor, bearer, createTestApp, listedKeys, type TestApp } from '../support/test-app.ts';

const KEYS_PER_USER_MAX = 1000;

const BURST = 2000;
const PER_S = 20;
const AT_ONCE = 500;
const input = { name: 'one more', scopes: [] };

/** Creates and deletes until this many creations are done. */
async function createAndDelete(app: TestApp, userId: string, count: number): Promise<void> {
  const headers = await bearer(app, userId);
  for (let made = 0; made < count; made += AT_ONCE) {
    const inputs = Array(Math.min(AT_ONCE, count - made)).fill(input);
    const created = await callAll(app, 'create_api_key', inputs, headers);
    const ids = created.map(({ structuredContent: { id } }) => ({ keyId: id }));
    await callAll(app, 'delete_api_key', ids, headers);
  }
}

const statusesOf = async (app: TestApp, sub: string, count: number) => {
  const headers = await bearer(app, sub);
  const responses = await Promise.all(Array.from({ length: count }, () => app.call('create_api_key', input, headers)));
  return responses.map(({ status }) => status);
};

const start = () => createTestApp({ store: 'embedded', env: { USER_RATE_LIMIT: '0', REVOCATION_LAG_MAX_MS: '60000' } });

test('a user who holds all the keys he may can replace them all at once', async () => {
  await using app = await start();
  const alice = await bearer(app, 'alice');
  for (let round = 0; round < 2; round += 1) {
    await callAll(app, 'create_api_key', Array(KEYS_PER_USER_MAX).fill(input), alice);
    const ids = (await listedKeys(app, 'alice')).map(({ id }) => ({ keyId: id }));
    expect(ids).toHaveLength(KEYS_PER_USER_MAX);
    const deleted = await callAll(app, 'delete_api_key', ids, alice);
    expect(deleted.every(({ structuredContent }) => structuredContent.success)).toBe(true);
  }
}, 180_000);

test('a user who creates keys in a loop gets 429 beyond 20 a second, logged once a second; others and revocations don’t', async () => {
  await using app = await start();
  const leaked = await app.createKey('alice');
  await createAndDelete(app, 'alice', BURST - 1);
  const alice = await bearer(app, 'alice');
  const over = await app.call('create_api_key', input, alice);
  expect(over.status).toBe(429);
  expect(over.headers.get('retry-after')).toBe('1');
  expect(over.body).toMatchObject({ code: 'rate_limited', detail: 'Rate limit exceeded; try again later' });
  app.clock.advance(40);
  const { body } = await post(app, call('create_api_key', input), alice);
  expect(body.result.isError).toBe(true);
  expect(body.result.content[0].text).toBe('Rate limit exceeded; try again later');
  // One budget for all.
  expect((await app.call('rotate_api_key', { keyId: leaked.id }, alice)).status).toBe(429);
  const updated = await app.update(actorFor('alice'), leaked.id, { name: 'new' });
  expect(updated).toMatchObject({ ok: false, error: { code: 'rate_limited' } });

  expect(await statusesOf(app, 'bob', 1)).toEqual([200]);
  expect((await app.useKey(leaked.key)).status).toBe(200);
  expect((await app.call('revoke_api_key', { keyId: leaked.id }, alice)).status).toBe(200);
  expect((await app.useKey(leaked.key)).status).toBe(401);
  expect((await app.call('delete_api_key', { keyId: leaked.id }, alice)).status).toBe(200);
  expect((await app.call('list_api_keys', {}, alice)).body).toEqual({ keys: [] });

  app.clock.advance(960);
  const statuses = await statusesOf(app, 'alice', PER_S + 1);
  expect(statuses.filter((status) => status === 200)).toHaveLength(PER_S);
  expect(statuses.filter((status) => status === 429)).toHaveLength(1);
  const lines = (await app.log()).filter(({ event }) => event === 'Rate limit exceeded');
  expect(lines).toMatchObject([
    { level: 'warn', userId: 'alice', suppressed: 0, requestId: over.body.requestId },
    { level: 'warn', userId: 'alice', suppressed: 3 },
  ]);
}, 180_000);
