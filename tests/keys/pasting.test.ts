// A key that is verified without being used: pasted into a page, or looked at, as by a client that redeems a code for it.

import { expect, test } from 'bun:test';
import { codeFor, handOver, register } from '../support/hand-over.ts';
import { postModern } from '../support/mcp.ts';
import { bearer, createTestApp, eventsIn, type TestApp } from '../support/test-app.ts';

const ENV = { OAUTH_REDIRECTS: 'loopback' };

const listed = async (app: TestApp) => (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body.keys[0];

/** A list of tools shows what the caller's key may call. */
const look = (app: TestApp, key: string) => postModern(app, 'tools/list', {}, { headers: { 'x-api-key': key } });

test('a pasted key is noted as validated, a key that is looked at is not', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const { key } = await app.createKey('alice');
  expect((await look(app, key)).status).toBe(200);
  expect((await listed(app)).lastUsedAt).toBeUndefined();
  const code = await codeFor(client, key);
  const pastedAtMs = app.clock.nowMs();
  expect((await listed(app)).lastUsedAt).toBe(pastedAtMs);
  app.clock.advance(1000);
  expect((await client.redeem(code)).status).toBe(200); // which looks at it
  expect((await listed(app)).lastUsedAt).toBe(pastedAtMs);
});

test('neither completes a rotation, and the next use does', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const { id } = await app.createKey('alice');
  const { key } = (await app.call('rotate_api_key', { keyId: id }, await bearer(app, 'alice'))).body;
  for (let round = 0; round < 2; round += 1) {
    const code = await codeFor(client, key);
    expect((await client.redeem(code)).body.access_token).toBe(key);
    expect((await look(app, key)).status).toBe(200);
  }
  expect((await listed(app)).rotation.state).toBe('until_first_use');
  expect((await eventsIn(app)).map(({ kind }) => kind)).not.toContain('first_used');
  expect((await app.useKey(key)).status).toBe(200);
  expect((await listed(app)).rotation.state).toBe('overlapping');
});

test('a revoked key is refused either way', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const { id, key } = await app.createKey('alice');
  const code = await codeFor(client, key);
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
  expect((await handOver(client.page(), { key })).status).toBe(401);
  expect((await client.redeem(code)).status).toBe(400);
});
