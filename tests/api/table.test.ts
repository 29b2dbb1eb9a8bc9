// Every route of the table, in each sweep: none is forgotten when one is added.

import { describe, expect, test } from 'bun:test';
import { readDocument, unquoted } from '../support/documents.ts';
import { sendOverSocket } from '../support/http-socket.ts';
import { methodOf, pathOf, type RouteFacts, type RouteName, rows } from '../support/tables.ts';
import { readResponse, sharedApp } from '../support/test-app.ts';

/** Everything is on. */
const env = {
  METRICS_TOKEN: 'a-token-for-scrapers',
  OAUTH_REDIRECTS: 'loopback',
  OAUTH_DEVICE: '1',
  ADMIN_CLAIM: 'roles=keys-admin',
};
const EVIL = 'https://evil.example';

const app = await sharedApp({ env });
const live = { NODE_ENV: 'production', PUBLIC_URL: 'https://keys.example', ALLOWED_HOSTS: 'localhost' };
const production = await sharedApp({ env: { ...env, ...live } });

const send = async (route: RouteFacts, init: RequestInit, at = app) => {
  const response = await fetch(at.url + pathOf(route), init);
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
    await response.body?.cancel();
    return { status: response.status, headers: response.headers, body: '' };
  }
  return readResponse(response);
};

/** Those whose bodies have keys, codes, tokens or secrets of clients. */
const HAS_SECRETS: readonly RouteName[] = [
  'introspect',
  'changes',
  'revoke',
  'authorize',
  'token',
  'deviceAuthorization',
  'deviceRequest',
  'deviceDecision',
];
const OWN_PAGE = { origin: live.PUBLIC_URL };

describe.each(rows)('%s', (name, route) => {
  const isAny = route.method === 'any';

  test('is there, forbids sniffing, and says what it is not asked with', async () => {
    const { status, headers } = await send(route, { method: methodOf(route) });
    expect(status).not.toBe(404);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    const wrong = await send(route, { method: 'DELETE' });
    const allow = route.method.replace('GET', 'GET, HEAD');
    if (isAny) expect(wrong.status).toBe(401);
    else expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, allow]);
    if (!isAny) expect(JSON.stringify(wrong.body)).toContain('This path takes ');
  });

  test('checks the host', async () => {
    const asked = `${methodOf(route)} ${pathOf(route)} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n`;
    const { status } = await sendOverSocket(app.url, asked);
    if (isAny) expect(status).toBe(401);
    else if (route.anyHost) expect(status).toBe(200);
    else expect(status).toBe(403);
  });

  test('is open to any origin, or checks it', async () => {
    const { status, headers, body } = await send(route, { method: methodOf(route), headers: { origin: EVIL } });
    const allowed = headers.get('access-control-allow-origin');
    if (route.openToAnyOrigin)
      expect({ allowed, code: body.code }).not.toEqual({ allowed: null, code: 'origin_denied' });
    else expect({ status, allowed }).toEqual({ status: isAny ? 401 : 403, allowed: null });
    expect(allowed).toBe(route.openToAnyOrigin ? '*' : null);
    if (!route.openToAnyOrigin) return;
    // The header comes without an Origin, too: a cache in between may keep that response.
    for (const init of [{ method: methodOf(route) }, { method: 'OPTIONS', headers: { origin: EVIL } }]) {
      expect((await send(route, init)).headers.get('access-control-allow-origin')).toBe('*');
    }
  });

  test('in production takes no credential over plain HTTP, and where a body has one, nothing', async () => {
    const key = { 'x-api-key': `sk_live_${'0'.repeat(64)}` };
    for (const method of isAny ? ['GET'] : route.method.split(', '))
      for (const credential of HAS_SECRETS.includes(name) ? [key, {}] : [key]) {
        const { status, body } = await send(route, { method, headers: { ...OWN_PAGE, ...credential } }, production);
        if (route.takesPlainHttp) expect(status).toBe(401);
        else
          expect([status, JSON.stringify(body)]).toEqual([
            403,
            expect.stringMatching(/https_required|over HTTPS only/),
          ]);
      }
  });

  test('GET / lists it, if it says something', async () => {
    const about = await (await fetch(app.url)).text();
    const line = about.split('\n').find((line) => line.startsWith(`  ${app.url}${route.path} `));
    expect(line === undefined ? undefined : line.endsWith(` ${route.says}`)).toBe(
      route.says === undefined ? undefined : true,
    );
  });
});

test.each(rows.filter(([, { who }]) => who !== undefined))(
  '%s takes nobody without a credential',
  async (_name, route) => {
    const body = route.takes === 'form' ? { body: new URLSearchParams({ token: 'x' }) } : {};
    expect((await send(route, { method: methodOf(route), ...body })).status).toBe(401);
  },
);

test('the table of the documents has each route, and no other', () => {
  const documented = readDocument('src/api/README.md')
    .table('Routes')
    .map(([route]) => unquoted(route));
  const there = rows.map(([, { method, path }]) => `${method} ${path}`);
  expect(documented.toSorted()).toEqual(there.toSorted());
});

test('GET / links the pages, and says that keys are managed on one', async () => {
  const html = await (await fetch(app.url, { headers: { accept: 'text/html' } })).text();
  const linked = [...html.matchAll(/href="(http[^"]+)"/g)].map(([, url = '']) => url.replace(app.url, ''));
  const pages = rows.flatMap(([, { isLinked, path }]) => (isLinked ? [path] : []));
  expect([...new Set(linked)].toSorted()).toEqual(pages.toSorted());
  expect(html).toContain('This is not a website. Connect to it with an MCP client. People manage their keys at ');
});
