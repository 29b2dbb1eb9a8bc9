// A key that is verified without being used: pasted into a page, or looked at, as by a client that redeems a code for it.

import { afterAll, expect, test } from 'bun:test';
import { codeFor, handOver, register } from '../support/hand-over.ts';
import { postModern } from '../support/mcp.ts';
import { bearer, createTestApp, eventsIn } from '../support/test-app.ts';

const app = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback' } });
const client = await register(app);
afterAll(() => app.close());

const listed = async () => (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body.keys[0];

/** A list of tools shows what the caller's key may call. */
const look = (key: string) => postModern(app, 'tools/list', {}, { headers: { 'x-api-key': key } });

test('a pasted key is noted as validated, a key that is looked at is not', async () => {
  const { key } = await app.createKey('alice');
  expect((await look(key)).status).toBe(200);
  expect((await listed()).lastUsedAt).toBeUndefined();
  const code = await codeFor(client, key);
  const pastedAtMs = app.clock.nowMs();
  expect((await listed()).lastUsedAt).toBe(pastedAtMs);
  app.clock.advance(1000);
  expect((await client.redeem(code)).status).toBe(200); // which looks at it
  expect((await listed()).lastUsedAt).toBe(pastedAtMs);
});

test('neither completes a rotation, and the next use does', async () => {
  const { id } = await app.createKey('alice');
  const { key } = (await app.call('rotate_api_key', { keyId: id }, await bearer(app, 'alice'))).body;
  for (let round = 0; round < 2; round += 1) {
    const code = await codeFor(client, key);
    expect((await client.redeem(code)).body.access_token).toBe(key);
    expect((await look(key)).status).toBe(200);
  }
  expect((await listed()).rotation.state).toBe('until_first_use');
  expect((await eventsIn(app, '--key', id)).map(({ kind }) => kind)).not.toContain('first_used');
  expect((await app.useKey(key)).status).toBe(200);
  expect((await listed()).rotation.state).toBe('overlapping');
});

test('a revoked key is refused either way', async () => {
  const { id, key } = await app.createKey('alice');
  const code = await codeFor(client, key);
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
  expect((await handOver(client.page(), { key })).status).toBe(401);
  expect((await client.redeem(code)).status).toBe(400);
});
