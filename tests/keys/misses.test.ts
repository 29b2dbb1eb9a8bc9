// Revoking, deleting and rotating keys that are not there: it writes nothing, and nobody may do it without end.

import { expect, test } from 'bun:test';
import { callAll } from '../support/mcp.ts';
import { startProxy } from '../support/proxy.ts';
import { startSqld } from '../support/sqld.ts';
import { storeOn } from '../support/store-mode.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

const NOBODYS = '0'.repeat(32);
const BURST = 2000;

test('revoking or deleting what is not there, or revoking again, writes nothing; what is not there is not polled for', async () => {
  await using sqld = await startSqld();
  await using proxy = await startProxy(sqld.url);
  const env = { ...sqld.env, DATABASE_URL: proxy.url, REVOCATION_LAG_MAX_MS: '60000' };
  await using app = await createTestApp({ store: storeOn(env) });
  const alice = await bearer(app, 'alice');
  const { id, key } = await app.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  const sent = () => ({ writes: proxy.sent('UPDATE api_keys'), statements: proxy.statements() });
  const before = sent();
  for (const tool of ['revoke_api_key', 'delete_api_key']) {
    expect((await app.call(tool, { keyId: NOBODYS }, alice)).status).toBe(200);
  }
  expect(sent()).toEqual({ writes: before.writes, statements: before.statements + 2 });
  expect((await app.call('revoke_api_key', { keyId: id }, alice)).status).toBe(200);
  expect((await app.useKey(key)).status).toBe(401);
  const revoked = sent();
  expect(revoked.writes).toBe(before.writes + 1);
  expect((await app.call('revoke_api_key', { keyId: id }, alice)).status).toBe(200);
  expect(sent().writes).toBe(revoked.writes);
});

test('a key that was revoked elsewhere is refused here as soon as it is revoked here again', async () => {
  await using sqld = await startSqld();
  await using proxy = await startProxy(sqld.url);
  const env = { ...sqld.env, DATABASE_URL: proxy.url, REVOCATION_LAG_MAX_MS: '60000' };
  await using app = await createTestApp({ store: storeOn(env) });
  const alice = await bearer(app, 'alice');
  const { id, key } = await app.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  const elsewhere = await createTestApp({ store: storeOn(sqld.env) });
  expect((await elsewhere.call('revoke_api_key', { keyId: id }, await bearer(elsewhere, 'alice'))).status).toBe(200);
  await elsewhere.close();
  expect((await app.call('revoke_api_key', { keyId: id }, alice)).status).toBe(200);
  expect((await app.useKey(key)).status).toBe(401);
});

test.each(['revoke_api_key', 'delete_api_key', 'rotate_api_key'])(
  '%s on ids that are not there is 429 beyond 2,000, and what is there can be revoked nevertheless',
  async (tool) => {
    await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
    const leaked = await app.createKey('alice');
    const alice = await bearer(app, 'alice');
    const inputs = Array.from({ length: BURST }, () => ({ keyId: NOBODYS }));
    const results = await callAll(app, 'revoke_api_key', inputs, alice);
    expect(results.some(({ isError }) => isError)).toBe(false);
    const over = await app.call(tool, { keyId: NOBODYS }, alice);
    expect(over).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(over.headers.get('retry-after')).toBe('1');
    expect((await app.call(tool, { keyId: NOBODYS }, await bearer(app, 'bob'))).status).toBe(
      tool === 'rotate_api_key' ? 404 : 200,
    );
    expect((await app.call('revoke_api_key', { keyId: leaked.id }, alice)).status).toBe(200);
    expect((await app.useKey(leaked.key)).status).toBe(401);
  },
);
