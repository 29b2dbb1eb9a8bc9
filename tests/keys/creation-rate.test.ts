// How fast one user may create keys, and that nothing keeps anybody from revoking them. Thousands of writes, so on a file
// in every mode.

import { describe, expect, test } from 'bun:test';
import { KEYS_PER_USER_MAX } from '../../src/keys/minting.ts';
import { call, post } from '../support/mcp.ts';
import { actorFor, bearer, createTestApp, insertKey, listedKeys, type TestApp } from '../support/test-app.ts';

const BURST = 2000;
const PER_S = 20;
const input = { name: 'one more', scopes: [] };

/** Creates and deletes until this many creations are done, not by HTTP, which takes ten times as long. */
async function createAndDelete({ service }: TestApp, userId: string, count: number): Promise<void> {
  const actor = actorFor(userId);
  for (let n = 0; n < count; n += 1) {
    const created = await service.keyDomain.keys.create(actor, input);
    if (!created.ok) throw new Error(created.error.code);
    await service.keyDomain.keys.delete(actor, created.value.record.id);
  }
}

const statusesOf = async (app: TestApp, sub: string, count: number) => {
  const headers = await bearer(app, sub);
  const responses = await Promise.all(Array.from({ length: count }, () => app.call('create_api_key', input, headers)));
  return responses.map(({ status }) => status);
};

test('a user who holds all the keys he may can replace them all at once', async () => {
  await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
  const { keys } = app.service.keyDomain;
  const actor = actorFor('alice');
  for (let round = 0; round < 2; round += 1) {
    for (let n = 0; n < KEYS_PER_USER_MAX; n += 1) await insertKey(app, 'alice');
    const ids = (await listedKeys(app, actor)).map(({ id }) => id);
    expect(ids).toHaveLength(KEYS_PER_USER_MAX);
    for (const id of ids) expect(await keys.delete(actor, id)).toEqual({ ok: true, value: undefined });
  }
}, 60_000);

describe('a user who creates and deletes in a loop', () => {
  test('a user who creates keys in a loop gets 429 beyond 20 a second; other users, and revocations, do not', async () => {
    await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
    const leaked = await app.createKey('alice');
    await createAndDelete(app, 'alice', BURST - 1);
    const alice = await bearer(app, 'alice');
    const over = await app.call('create_api_key', input, alice);
    expect(over.status).toBe(429);
    expect(over.headers.get('retry-after')).toBe('1');
    expect(over.body).toMatchObject({ code: 'rate_limited', detail: 'Rate limit exceeded; try again later' });
    const { body } = await post(app, call('create_api_key', input), alice);
    expect(body.result.isError).toBe(true);
    expect(body.result.content[0].text).toBe('Rate limit exceeded; try again later');

    expect(await statusesOf(app, 'bob', 1)).toEqual([200]);
    expect((await app.useKey(leaked.key)).status).toBe(200);
    expect((await app.call('revoke_api_key', { keyId: leaked.id }, alice)).status).toBe(200);
    expect((await app.useKey(leaked.key)).status).toBe(401);
    expect((await app.call('delete_api_key', { keyId: leaked.id }, alice)).status).toBe(200);
    expect((await app.call('list_api_keys', {}, alice)).body).toEqual({ keys: [] });

    app.clock.advance(1000);
    const statuses = await statusesOf(app, 'alice', PER_S + 1);
    expect(statuses.filter((status) => status === 200)).toHaveLength(PER_S);
    expect(statuses.filter((status) => status === 429)).toHaveLength(1);
  }, 60_000);

  test('a user over the creation budget is logged once a second, with the number of lines left out', async () => {
    await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
    await createAndDelete(app, 'alice', BURST);
    const refuse = async (count: number) => {
      expect(await statusesOf(app, 'alice', count)).toEqual(Array(count).fill(429));
    };
    await refuse(5);
    app.clock.advance(40);
    await refuse(3);
    app.clock.advance(1000);
    expect(await statusesOf(app, 'alice', PER_S)).toEqual(Array(PER_S).fill(200));
    await refuse(1);
    const lines = (await app.log()).filter(({ event }) => event === 'Rate limit exceeded');
    expect(lines.map(({ level, userId, suppressed }) => ({ level, userId, suppressed }))).toEqual([
      { level: 'warn', userId: 'alice', suppressed: 0 },
      { level: 'warn', userId: 'alice', suppressed: 7 },
    ]);
    expect(lines.every(({ requestId }) => typeof requestId === 'string')).toBe(true);
  }, 60_000);
});
