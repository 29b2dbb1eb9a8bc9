// The door for OAuth as others judge it: a strict OAuth client library, and the official suite's authorization scenarios.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import * as oauth from 'oauth4webapi';
import { postJson } from '../../support/client.ts';
import { CALLBACK, handOver, makeForConnection, register } from '../../support/hand-over.ts';
import { freePorts } from '../../support/sqld.ts';
import { bearer, createTestApp, type TestApp } from '../../support/test-app.ts';

setDefaultTimeout(180_000); // a process is started

const ENV = { OAUTH_REDIRECTS: 'loopback' };
const HTTP = { [oauth.allowInsecureRequests]: true };

/** Hands over a key, or makes one by a click: where the client is sent. */
const WAYS = {
  pasted: async (app: TestApp, page: URL) => {
    const { key } = await app.createKey('alice', { expiresInDays: 30 });
    return (await handOver(page, { key })).headers.get('location') ?? '';
  },
  'made by a click': async (app: TestApp, page: URL) => {
    const decided = { name: 'by a click', scopes: ['read'], expiresInDays: 30 };
    return (await (await makeForConnection(app, page, await bearer(app, 'alice'), decided)).json()).location;
  },
};

const PLACES = [
  ['', 'pasted'],
  ['/keys', 'made by a click'],
] as const;

test.each(PLACES)('oauth4webapi registers, signs in and gets a key, below "%s", %s', async (BASE_PATH, way) => {
  await using app = await createTestApp({ env: { ...ENV, BASE_PATH } });
  const resource = new URL(`${app.url}/mcp`);
  const metadata = await oauth.resourceDiscoveryRequest(resource, HTTP);
  const protectedBy = await oauth.processResourceDiscoveryResponse(resource, metadata);
  const issuer = new URL(protectedBy.authorization_servers?.[0] ?? '');
  const server = await discover(issuer, app);

  const asked = { redirect_uris: [CALLBACK], token_endpoint_auth_method: 'none' };
  const registering = await oauth.dynamicClientRegistrationRequest(server, asked, HTTP);
  const client = await oauth.processDynamicClientRegistrationResponse(registering);
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const page = new URL(server.authorization_endpoint ?? '');
  page.search = new URLSearchParams({
    client_id: client.client_id,
    redirect_uri: CALLBACK,
    response_type: 'code',
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    scope: (server.scopes_supported ?? []).join(' '),
    resource: resource.href,
    state,
  }).toString();
  const parameters = oauth.validateAuthResponse(server, client, new URL(await WAYS[way](app, page)), state);
  const redeeming = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    oauth.None(),
    parameters,
    CALLBACK,
    verifier,
    { additionalParameters: { resource: resource.href }, ...HTTP },
  );
  const token = await oauth.processAuthorizationCodeResponse(server, client, redeeming);
  expect(token).toMatchObject({ token_type: 'bearer', scope: 'read', expires_in: 30 * 86_400 });
  expect((await app.useKey(token.access_token)).status).toBe(200);

  const cancelled = new URL((await handOver(page, { cancel: '1' })).headers.get('location') ?? '');
  expect(() => oauth.validateAuthResponse(server, client, cancelled, state)).toThrow(oauth.AuthorizationResponseError);
});

async function discover(issuer: URL, app: TestApp) {
  const discovered = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...HTTP });
  return oauth.processDiscoveryResponse(new URL(app.url), discovered);
}

test('oauth4webapi asks without a browser, below a path, waits, and gets the key', async () => {
  await using app = await createTestApp({ env: { OAUTH_DEVICE: '1', BASE_PATH: '/keys' } });
  const server = await discover(new URL(app.url), app);
  const client = { client_id: 'agent' };
  const asked = new URLSearchParams({ client_name: 'agent', scope: 'read' });
  const asking = await oauth.deviceAuthorizationRequest(server, client, oauth.None(), asked, HTTP);
  const device = await oauth.processDeviceAuthorizationResponse(server, client, asking);
  const poll = async () => {
    const polled = await oauth.deviceCodeGrantRequest(server, client, oauth.None(), device.device_code, HTTP);
    return oauth.processDeviceCodeResponse(server, client, polled);
  };
  const refusal = (await poll().catch((error: unknown) => error)) as oauth.ResponseBodyError;
  expect(refusal.error).toBe('authorization_pending');
  app.clock.advance((device.interval ?? 0) * 1000);
  const decided = { userCode: device.user_code, approve: true, name: 'agent', scopes: ['read'], expiresInDays: 1 };
  const response = await postJson(`${app.url}/device/decision`, decided, await bearer(app, 'alice'));
  expect(response.status).toBe(200);
  const token = await poll();
  expect(token).toMatchObject({ token_type: 'bearer', scope: 'read', expires_in: 86_400 });
  expect((await app.useKey(token.access_token)).status).toBe(200);
});

const SUITE = join(import.meta.dir, '../../../node_modules/@modelcontextprotocol/conformance/dist/index.js');
const PAGE = /(http:\/\/127\.0\.0\.1:\d+\/authorize\?\S+)/;

test('the official suite’s scenarios for authorization servers pass', async () => {
  await using app = await createTestApp({ env: ENV });
  const { key } = await app.createKey('alice');
  const [port = 0] = freePorts(1);
  const { clientId } = await register(app, [`http://127.0.0.1:${port}/callback`]);
  const args = ['--url', app.url, '--client-id', clientId, '--resource', `${app.url}/mcp`, '--port', String(port)];
  const suite = Bun.spawn([process.execPath, SUITE, 'authorization', ...args], { stdin: 'ignore', stdout: 'pipe' });
  const decoder = new TextDecoder();
  let said = '';
  let page: string | undefined;
  for await (const chunk of suite.stdout) {
    said += decoder.decode(chunk, { stream: true });
    if (page !== undefined) continue;
    page = PAGE.exec(said)?.[1];
    if (page === undefined) continue;
    const location = (await handOver(new URL(page), { key })).headers.get('location');
    await fetch(location ?? '');
  }
  expect(await suite.exited).toBe(0);
  expect(said).toContain('Total: 2 passed, 0 failed');
});
