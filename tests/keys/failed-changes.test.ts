// Revoking, deleting and rotating keys that are not there: it changes nothing, and nobody may do it without end.

import { expect, test } from 'bun:test';
import { childOf } from '../support/children.ts';
import { callAll } from '../support/mcp.ts';
import { startProxy } from '../support/proxy.ts';
import { storeOn } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import { bearer, COUNTED, createTestApp, eventsIn } from '../support/test-app.ts';

const NOBODYS = '0'.repeat(32);
const BURST = 2000;

test('revoking is one statement and a poll, of what is not there one more, as it may be a child, and leaves no event', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  const env = { ...sqld.env, DATABASE_URL: proxy.url, REVOCATION_LAG_MAX_MS: '60000' };
  await using app = await createTestApp({ store: storeOn(env) });
  const alice = await bearer(app, 'alice');
  const { id, key } = await app.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  const revoke = async (keyId: string, tool = 'revoke_api_key') => {
    const before = proxy.statements();
    expect((await app.call(tool, { keyId }, alice)).status).toBe(200);
    return proxy.statements() - before;
  };
  for (const tool of ['revoke_api_key', 'delete_api_key']) expect(await revoke(NOBODYS, tool)).toBe(3);
  expect(await revoke(id)).toBe(2);
  expect((await app.useKey(key)).status).toBe(401);
  expect(await revoke(id)).toBe(3);
  expect((await eventsIn(app)).map(({ kind }) => kind)).toEqual(['created', 'revoked']);

  // One that was revoked elsewhere is refused here as soon as it is revoked here again.
  const other = await app.createKey('alice');
  expect((await app.useKey(other.key)).status).toBe(200);
  await using elsewhere = await createTestApp({ store: storeOn(sqld.env) });
  const hers = await bearer(elsewhere, 'alice');
  expect((await elsewhere.call('revoke_api_key', { keyId: other.id }, hers)).status).toBe(200);
  await revoke(other.id);
  expect((await app.useKey(other.key)).status).toBe(401);
});

test('ids that are not there are 429 beyond 2,000, without a write; what is there can be revoked nevertheless', async () => {
  await using app = await createTestApp({ store: 'embedded', env: { ...COUNTED, REVOCATION_LAG_MAX_MS: '60000' } });
  const leaked = await app.createKey('alice', { scopes: ['read', 'delegate'] });
  const child = await childOf(app, leaked.key);
  const [alice, bob] = [await bearer(app, 'alice'), await bearer(app, 'bob')];
  const inputs = Array.from({ length: BURST }, () => ({ keyId: NOBODYS }));
  const results = await callAll(app, 'revoke_api_key', inputs, alice);
  expect(results.some(({ isError }) => isError)).toBe(false);
  const writes = () => app.storeCalls('deactivate', 'remove', 'rotate');
  for (const [tool, others] of [
    ['revoke_api_key', 200],
    ['delete_api_key', 200],
    ['rotate_api_key', 404],
  ] as const) {
    const before = await writes();
    const over = await app.call(tool, { keyId: NOBODYS }, alice);
    expect(over).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(over.headers.get('retry-after')).toBe('1');
    expect(await writes()).toBe(before);
    expect((await app.call(tool, { keyId: NOBODYS }, bob)).status).toBe(others);
  }
  for (const { id: keyId, key } of [child, leaked]) {
    expect((await app.call('revoke_api_key', { keyId }, alice)).status).toBe(200);
    expect((await app.useKey(key)).status).toBe(401);
  }
  const ended = await writes();
  expect((await app.call('revoke_api_key', { keyId: leaked.id }, alice)).status).toBe(429); // it has ended
  expect(await writes()).toBe(ended);
});
