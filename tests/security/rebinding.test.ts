// DNS rebinding: a page whose own host name was made to resolve to this server. To the browser the two are one origin,
// so nothing but the name in the request tells them apart.

import { expect, test } from 'bun:test';
import { postText, sendOverSocket } from '../support/http-socket.ts';
import { call, modern, request } from '../support/mcp.ts';
import { pathOf, rows } from '../support/tables.ts';
import { bearer, sharedApp } from '../support/test-app.ts';

const NAMES = ['evil.example', 'evil.example:3000', 'localhost.evil.example', '127.0.0.1.evil.example', 'localhost.'];

const app = await sharedApp();

const INITIALIZE = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'page', version: '1' } };

/** All but what answers any host. */
const CHECKED = rows.flatMap(([, route]) => (route.anyHost || route.method === 'any' ? [] : [pathOf(route)]));

/** What the page asks for, with a token that it was given. */
async function requestsFrom(host: string): Promise<string[]> {
  const token = (await bearer(app, 'alice')).authorization;
  const discover = modern('server/discover');
  return ['', `http://${host}`].flatMap((origin) => {
    const headers = { Host: host, Authorization: token, ...(origin !== '' && { Origin: origin }) };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const read = (method: string, path: string) => `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
    return [
      ...[...CHECKED, '/nope'].map((path) => read('GET', path)),
      read('OPTIONS', '/tools/create_api_key'),
      postText('/tools/create_api_key', '{"name":"of the page","scopes":[]}', headers),
      postText('/tools/list_api_keys', '{}', headers),
      postText('/mcp', JSON.stringify(request('initialize', INITIALIZE)), headers),
      postText('/mcp', JSON.stringify(discover.body), { ...discover.headers, ...headers }),
      postText('/mcp', JSON.stringify(call('create_api_key', { name: 'of the page', scopes: [] })), headers),
      postText('/messages?sessionId=x', JSON.stringify(request('ping')), headers),
    ];
  });
}

test.each(NAMES)('a page of http://%s is refused whatever it asks for, and may not read why', async (name) => {
  for (const sent of await requestsFrom(name)) {
    const { status, headers, body } = await sendOverSocket(app.url, sent);
    const [asked = ''] = sent.split('\r\n', 1);
    expect({ asked, status, code: JSON.parse(body).code ?? 'host_denied' }).toEqual({
      asked,
      status: 403,
      code: 'host_denied', // OAuth's errors have no code
    });
    expect(headers.has('access-control-allow-origin')).toBe(false);
  }
});

test('the requests of a rebound page changed nothing', async () => {
  const { body } = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  expect(body.keys).toEqual([]);
  const health = await (await fetch(`${app.url}/mcp/health`)).json();
  expect(health).toMatchObject({ sessions: 0 });
});
