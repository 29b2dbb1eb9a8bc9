// A server that starts while its database is out of reach: it knows neither rules nor keys of another form, so it calls no
// such credential wrong, and claims nothing of it.

import { expect, test } from 'bun:test';
import { JWT_BEARER } from '../support/children.ts';
import { userHeaders } from '../support/client.ts';
import { createIssuer } from '../support/issuer.ts';
import { post, request } from '../support/mcp.ts';
import { startServer } from '../support/server-process.ts';
import { shared } from '../support/shared.ts';
import { TEST_SECRET } from '../support/test-app.ts';

// Nothing listens there.
const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: 'http://127.0.0.1:9/', OAUTH_REDIRECTS: 'loopback' };
const server = await shared(startServer({ env }));
const issuer = await shared(createIssuer());
const nowS = Math.floor(Date.now() / 1000);
const workloads = await issuer.token({ sub: 'job', aud: server.url, iat: nowS, exp: nowS + 300 });

const FOREIGN = 'key-of-another-system-0123456789';

const form = (path: string, fields: Record<string, string>, headers = {}) =>
  fetch(server.url + path, { method: 'POST', body: new URLSearchParams(fields), headers });

test('a workload’s token, and a key of another form, are 503, and not wrong', async () => {
  for (const key of [workloads, FOREIGN]) {
    for (const headers of [{ 'x-api-key': key }, { authorization: `Bearer ${key}` }] as Record<string, string>[]) {
      const called = await fetch(`${server.url}/tools/get_data`, { method: 'POST', headers });
      expect([called.status, (await called.json()).code]).toEqual([503, 'store_unavailable']);
      expect((await fetch(`${server.url}/verify`, { headers })).status).toBe(503);
      expect((await form('/introspect', { token: key }, headers)).status).toBe(503);
    }
  }
  const grant = { grant_type: JWT_BEARER, assertion: workloads };
  const granted = await form('/token', grant);
  expect([granted.status, (await granted.json()).error]).toEqual([503, 'temporarily_unavailable']);
});

test('over MCP nobody is sent to sign in again', async () => {
  for (const key of [workloads, FOREIGN]) {
    const call = request('tools/call', { name: 'whoami', arguments: {} });
    const { status, body } = await post(server, call, { authorization: `Bearer ${key}` });
    expect([status, body.result.content[0].text]).toEqual([200, 'The key store is out of reach; try again']);
  }
});

test('a leaked key of another form is not said to have ended', async () => {
  expect((await form('/revoke', { token: FOREIGN })).status).toBe(503);
  expect((await form('/revoke', { token: 'short' })).status).toBe(200);
});

test('a user’s token is a user’s all the same', async () => {
  const { status, body } = await post(server, request('tools/list'), await userHeaders('alice'));
  expect(status).toBe(200);
  expect(body.result.tools.map(({ name }: { name: string }) => name)).toContain('create_api_key');
});
