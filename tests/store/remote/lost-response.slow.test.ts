// A response that is lost on the way: the statement was carried out, and is sent again, by this program or (on Deno,
// whose fetch repeats a POST when a reused connection dies) behind its back.

import { describe, expect, test } from 'bun:test';
import { userHeaders } from '../../support/client.ts';
import { callServer, useKey } from '../../support/cluster.ts';
import { startProxy } from '../../support/proxy.ts';
import { startServer } from '../../support/server-process.ts';
import { startPrimary } from '../../support/template.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

describe.each(['bun', 'deno'] as const)('on %s', (runtime) => {
  test('one creation is one key, one revocation revokes, one deletion deletes', async () => {
    await using sqld = await startPrimary();
    await using proxy = await startProxy(sqld.url);
    const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: proxy.url };
    await using server = await startServer({ runtime, env });
    const alice = await userHeaders('alice');
    const call = (tool: string, input: object) => callServer(server, tool, input, alice);
    await call('list_api_keys', {}); // opens the connections that are used again

    proxy.loseResponseTo('INSERT INTO api_keys');
    const created = await call('create_api_key', { name: 'only one', scopes: ['read'] });
    expect(created.status).toBe(200);
    expect(proxy.sent('INSERT INTO api_keys')).toBeGreaterThan(1);
    expect((await call('list_api_keys', {})).body.keys).toHaveLength(1);
    expect(await useKey(server, created.body.key)).toBe(200);

    proxy.loseResponseTo('UPDATE api_keys SET active');
    expect((await call('revoke_api_key', { keyId: created.body.id })).status).toBe(200);
    expect(proxy.sent('UPDATE api_keys SET active')).toBeGreaterThan(1);
    expect(await useKey(server, created.body.key)).toBe(401);

    proxy.loseResponseTo('UPDATE api_keys SET deleting');
    expect((await call('delete_api_key', { keyId: created.body.id })).status).toBe(200);
    expect(proxy.sent('UPDATE api_keys SET deleting')).toBeGreaterThan(1);
    expect((await call('list_api_keys', {})).body.keys).toEqual([]);
    if (runtime === 'bun') {
      await server.stop(); // a change made by a try whose response was lost is not logged as no change
      expect(server.stdout()).not.toContain('"changed":false');
    }
  }, 180_000);

  test('a creation that arrives once more, late, does not bring back a key that was deleted meanwhile', async () => {
    await using sqld = await startPrimary();
    await using proxy = await startProxy(sqld.url);
    const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: proxy.url };
    await using server = await startServer({ runtime, env });
    const alice = await userHeaders('alice');
    const letThrough = proxy.holdUp('INSERT INTO api_keys');
    const { body } = await callServer(server, 'create_api_key', { name: 'k', scopes: ['read'] }, alice);
    expect((await callServer(server, 'delete_api_key', { keyId: body.id }, alice)).status).toBe(200);
    await letThrough();
    expect((await callServer(server, 'list_api_keys', {}, alice)).body.keys).toEqual([]);
    expect(await useKey(server, body.key)).toBe(401);
  }, 180_000);
});
