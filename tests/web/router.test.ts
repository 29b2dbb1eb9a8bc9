// Which path leads to which route.

import { describe, expect, test } from 'bun:test';
import { methodOf, pathOf, type RouteName, rows } from '../support/tables.ts';
import { sharedApp, type TestApp } from '../support/test-app.ts';

/** A stream has no end; what is well known is not below BASE_PATH. */
const LEFT_OUT: readonly RouteName[] = ['about', 'sse', 'serverMetadata', 'resourceMetadata'];
const ROUTES = rows
  .filter(([name]) => !LEFT_OUT.includes(name))
  .map(([, route]) => [methodOf(route), pathOf(route)] as const);

const env = { METRICS_TOKEN: 'm'.repeat(32), OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1', ADMIN_CLAIM: 'sub=root' };

async function asked(app: TestApp, method: string, path: string, base = '') {
  const response = await fetch(`${new URL(app.url).origin}${base}${path}`, { method, redirect: 'manual' });
  const body = (await response.text()).replace(
    /"requestId":"[^"]*"|"(uptimeSeconds|lagMs|sinceMs)":[\d.]+|"(device|user)_code":"[^"]*"|#ask=[\w-]+/g,
    '',
  );
  return [response.status, response.headers.get('content-type'), body];
}

const app = await sharedApp({ env });
const below = await sharedApp({ env: { ...env, BASE_PATH: '/api' } });

describe('a slash at the end of a path is ignored', () => {
  test.each(ROUTES)('%s %s', async (method, path) => {
    const without = await asked(app, method, path);
    expect(without[0]).not.toBe(404);
    expect(await asked(app, method, `${path}/`)).toEqual(without);
    expect((await asked(below, method, `${path}/`, '/api'))[0]).toBe(without[0]);
  });

  test('one alone, and not that of a path with nothing at it', async () => {
    const problem = { status: 404, code: 'not_found', detail: 'No such route' };
    for (const path of ['/mcp//', '/nothing', '/nothing/', '/mcp/health/x']) {
      expect(await (await fetch(app.url + path)).json()).toMatchObject(problem);
    }
    expect(await (await fetch(`${app.url}/tools/nope/`, { method: 'POST' })).json()).toMatchObject({
      code: 'tool_not_found',
    });
  });

  const elsewhere = ['/api/health', '/api/healthz/', '/api/ready', '/health', '/livez', '/mcp/health'];

  test.each(elsewhere)('%s says where health is, whatever the host', async (path) => {
    const response = await fetch(new URL(path, below.url), { headers: { host: 'probe.internal' } });
    expect(response.status).toBe(404);
    expect((await response.json()).detail).toBe('No such route; health is at /api/mcp/health');
  });

  test('a method that the route lacks is named as one', async () => {
    const response = await fetch(`${app.url}/mcp/`, { method: 'DELETE' });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST']);
    expect(await response.json()).toMatchObject({ detail: 'This path takes POST alone' });
    const { detail } = await (await fetch(`${app.url}/mcp/health`, { method: 'POST' })).json();
    expect(detail).toBe('This path takes GET and HEAD alone');
  });
});
