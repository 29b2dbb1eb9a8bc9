// RFC 9728 metadata, and the challenge that leads to it.

import { describe, expect, test } from 'bun:test';
import { createTestApp, readResponse, sharedApp, type TestApp } from '../support/test-app.ts';

const AUTHORIZATION_SERVER = 'https://login.example/tenant';
const WITH_SERVER = { JWT_SECRET: undefined, JWT_ISSUER: AUTHORIZATION_SERVER };

const metadataAt = async (app: TestApp, path: string, init: RequestInit = {}) =>
  readResponse(await fetch(`${new URL(app.url).origin}/.well-known/oauth-protected-resource${path}`, init));

const app = await sharedApp({ env: WITH_SERVER });

describe('with an authorization server', () => {
  test.each(['', '/mcp', '/sse'])('the document of "%s" names its own address', async (path) => {
    const response = await metadataAt(app, path);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.body).toEqual({
      resource: `${app.url}${path}`,
      authorization_servers: [AUTHORIZATION_SERVER],
      scopes_supported: ['openid'],
      bearer_methods_supported: ['header'],
      resource_name: 'mcp-key-server',
    });
  });

  test('PUBLIC_URL with a path has its documents at the root', async () => {
    const env = { ...WITH_SERVER, PUBLIC_URL: 'https://example.org/keys/', BASE_PATH: '/behind' };
    await using behind = await createTestApp({ env });
    for (const path of ['', '/mcp', '/sse']) {
      expect((await metadataAt(behind, `/keys${path}`)).body.resource).toBe(`https://example.org/keys${path}`);
      expect((await metadataAt(behind, path)).status).toBe(404);
      expect((await metadataAt(behind, `/behind${path}`)).status).toBe(404);
      const below = await fetch(`${behind.url}/.well-known/oauth-protected-resource/keys${path}`);
      expect(below.status).toBe(404);
    }
  });

  test('BASE_PATH is the path if there is no PUBLIC_URL', async () => {
    await using below = await createTestApp({ env: { ...WITH_SERVER, BASE_PATH: '/keys' } });
    expect((await metadataAt(below, '/keys/mcp')).body.resource).toBe(`${below.url}/mcp`);
  });

  test('any page may read it, HEAD works, POST does not', async () => {
    const headers = { origin: 'https://elsewhere.example' };
    expect((await metadataAt(app, '/mcp', { headers })).headers.get('access-control-allow-origin')).toBe('*');
    const head = await metadataAt(app, '/mcp', { method: 'HEAD' });
    expect([head.status, head.body]).toEqual([200, '']);
    const post = await metadataAt(app, '/mcp', { method: 'POST' });
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    const preflight = await metadataAt(app, '/mcp', {
      method: 'OPTIONS',
      headers: {
        ...headers,
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'mcp-protocol-version',
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*');
    expect(preflight.headers.get('access-control-allow-headers')).toContain('MCP-Protocol-Version');
  });

  test('a JWT tool’s refusal leads there, with and without a token; a key tool’s does not', async () => {
    await using named = await createTestApp({ env: { ...WITH_SERVER, PUBLIC_URL: 'https://example.org/keys' } });
    const address = 'https://example.org/.well-known/oauth-protected-resource/keys';
    const challenge = async (tool: string, headers?: Record<string, string>) =>
      (await named.call(tool, {}, headers)).headers.get('www-authenticate');
    expect(await challenge('list_api_keys')).toBe(
      `Bearer realm="mcp-key-server", scope="openid", resource_metadata="${address}"`,
    );
    expect(await challenge('list_api_keys', { authorization: 'Bearer x' })).toBe(
      `Bearer error="invalid_token", error_description="Invalid or expired user token", scope="openid", resource_metadata="${address}"`,
    );
    expect(await challenge('get_data')).toBe('Bearer realm="mcp-key-server"');
    expect(await challenge('get_data', { authorization: 'Bearer x' })).not.toContain('resource_metadata');
  });
});

describe('without an authorization server', () => {
  const WITHOUT: [string, Record<string, string | undefined>][] = [
    ['a secret', {}],
    ['a secret and an issuer to compare', { JWT_ISSUER: 'https://login.example' }],
    ['a key set alone', { JWT_SECRET: undefined, JWT_JWKS_URL: 'http://127.0.0.1:1/jwks' }],
  ];
  test.each(WITHOUT)('(%s) every document is 404, for any page, and no refusal leads there', async (_, env) => {
    await using app = await createTestApp({ env });
    for (const path of ['', '/mcp', '/sse']) {
      const response = await metadataAt(app, path, { headers: { origin: 'https://elsewhere.example' } });
      expect(response.body).toMatchObject({ status: 404, code: 'not_found' });
      expect(response.headers.get('access-control-allow-origin')).toBe('*');
      expect((await metadataAt(app, path, { method: 'POST' })).status).toBe(404);
    }
    const refused = await app.call('list_api_keys');
    expect(refused.headers.get('www-authenticate')).toBe('Bearer realm="mcp-key-server"');
  });
});

test('without Connect any page may read that the documents and routes of OAuth clients are not there', async () => {
  await using without = await createTestApp();
  const headers = { origin: 'https://elsewhere.example' };
  for (const [method, path] of [
    ['GET', '/.well-known/oauth-protected-resource/mcp'],
    ['GET', '/.well-known/oauth-authorization-server'],
    ['OPTIONS', '/.well-known/oauth-authorization-server'],
    ['POST', '/register'],
  ] as const) {
    const response = await fetch(without.url + path, { method, headers });
    expect([path, response.status, response.headers.get('access-control-allow-origin')]).toEqual([path, 404, '*']);
  }
  expect((await fetch(`${without.url}/authorize`, { headers })).status).toBe(403);
});
