// The door for OAuth as others judge it: a strict OAuth client library, and the official suite's authorization scenarios.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import * as oauth from 'oauth4webapi';
import { CALLBACK, handOver, register } from '../support/hand-over.ts';
import { freePorts } from '../support/sqld.ts';
import { createTestApp } from '../support/test-app.ts';

setDefaultTimeout(60_000); // a process is started

const ENV = { OAUTH_REDIRECTS: 'loopback' };
const HTTP = { [oauth.allowInsecureRequests]: true };

test.each(['', '/keys'])('oauth4webapi registers, signs in and gets the key, below "%s"', async (BASE_PATH) => {
  await using app = await createTestApp({ env: { ...ENV, BASE_PATH } });
  const { key } = await app.createKey('alice', { expiresInDays: 30 });
  const resource = new URL(`${app.url}/mcp`);
  const metadata = await oauth.resourceDiscoveryRequest(resource, HTTP);
  const protectedBy = await oauth.processResourceDiscoveryResponse(resource, metadata);
  const issuer = new URL(protectedBy.authorization_servers?.[0] ?? '');
  const discovered = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...HTTP });
  const server = await oauth.processDiscoveryResponse(new URL(app.url), discovered);

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
  const back = new URL((await handOver(page, { key })).headers.get('location') ?? '');
  const parameters = oauth.validateAuthResponse(server, client, back, state);
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
  expect(token).toMatchObject({ access_token: key, token_type: 'bearer', scope: 'read', expires_in: 30 * 86_400 });

  const cancelled = new URL((await handOver(page, { cancel: '1' })).headers.get('location') ?? '');
  expect(() => oauth.validateAuthResponse(server, client, cancelled, state)).toThrow(oauth.AuthorizationResponseError);
});

const SUITE = join(import.meta.dir, '../../node_modules/@modelcontextprotocol/conformance/dist/index.js');
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
