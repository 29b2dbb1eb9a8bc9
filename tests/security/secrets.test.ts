// A key, its hash, a user token and a database token, put into every field and header on purpose: none of them appears
// in a response, a log line, an error or a page. Exceptions: the id of a JSON-RPC message and a progress token, which
// the protocol sends back, and the name and scopes of a key, which its owner chooses.

import { describe, expect, test } from 'bun:test';
import { userToken } from '../support/client.ts';
import { openHttpSocket } from '../support/http-socket.ts';
import { modern, openSse } from '../support/mcp.ts';
import { PATHS } from '../support/tables.ts';
import { bearer, sharedApp, TEST_SECRET } from '../support/test-app.ts';
import { SERVER_TOOLS as TOOLS } from '../support/tools.ts';

const app = await sharedApp({ env: { LOG_LEVEL: 'debug', ACCESS_LOG: '1' } });
const user = await bearer(app, 'alice');
const { key } = await app.createKey('alice');
const service = await app.createKey('alice', { scopes: ['introspect'] });
const revoked = await app.createKey('alice');
await app.call('revoke_api_key', { keyId: revoked.id }, user);
const never = `sk_live_${'ab'.repeat(32)}`;
const hash = Bun.SHA256.hash(key, 'hex');
const token = await app.token('alice');
const secrets = [key, revoked.key, never, token, await userToken('a database'), hash];
/** One of each form: a key, a token, a hash. */
const forms = [key, token, hash];

interface Sent {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

/** Everything the server says to it: status line, headers and body. */
async function everythingSaid({ path, method = 'POST', headers = {}, body }: Sent): Promise<string> {
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
  const all = {
    Host: 'localhost',
    ...(text !== '' && { 'Content-Type': 'application/json' }),
    'Content-Length': String(Buffer.byteLength(text)),
    ...headers,
    Connection: 'close',
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const connection = await openHttpSocket(app.url);
  connection.socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${text}`);
  await connection.closed;
  return connection.received();
}

async function expectKept(secret: string, sent: Sent): Promise<void> {
  const said = await everythingSaid(sent);
  expect(said).toStartWith('HTTP/1.1 ');
  expect(said).not.toContain(secret);
  expect(said).not.toMatch(/^HTTP\/1\.1 50[^5]/);
}

const VALID: Readonly<Record<string, object>> = {
  create_api_key: { name: 'x', scopes: [] },
  rotate_api_key: { keyId: 'x' },
  revoke_api_key: { keyId: 'x' },
  delete_api_key: { keyId: 'x' },
};

describe('over REST', () => {
  test.each(TOOLS)('%s: any field, its name, any header, the path, the query', async (tool) => {
    const path = `/tools/${tool}`;
    const input = VALID[tool] ?? {};
    for (const secret of secrets) {
      const bodies = [
        secret,
        JSON.stringify(secret),
        `{"${secret}`,
        [secret],
        { ...input, [secret]: 1 },
        { ...input, _meta: { [secret]: secret, api_key: secret } },
        { ...input, expiresInDays: secret, keyId: [secret], name: { [secret]: secret }, scopes: secret },
        { ...input, scopes: [`${secret} "`, { [secret]: secret }] },
        { ...input, keyId: secret, x: secret },
      ];
      for (const body of bodies) {
        await expectKept(secret, { path, headers: user, body });
        await expectKept(secret, { path, headers: { 'X-API-Key': secret }, body });
      }
      await expectKept(secret, { path: `${path}/${secret}`, headers: user });
      await expectKept(secret, { path: `${path}?${secret}=${secret}`, headers: user });
      await expectKept(secret, { path: `/${secret}` });
      for (const name of [...headersFor(secret), secret])
        await expectKept(secret, { path, headers: { [name]: secret } });
    }
  });
});

const HEADERS = [
  'Authorization',
  'Content-Type',
  'Content-Encoding',
  'Transfer-Encoding',
  'Host',
  'Origin',
  'Accept',
  'Cookie',
  'Expect',
  'Range',
  'Upgrade',
  'X-API-Key',
  'X-Forwarded-For',
  'X-Forwarded-Proto',
  'X-Request-Id',
  'MCP-Protocol-Version',
  'Mcp-Method',
  'Mcp-Name',
  'Mcp-Session-Id',
  'Last-Event-ID',
];

/** Where a credential is read all secrets are, elsewhere one of each form. */
const headersFor = (secret: string): readonly string[] =>
  forms.includes(secret) ? HEADERS : ['Authorization', 'Cookie', 'X-API-Key'];

describe('for other services', () => {
  test('/verify: demanded scopes, any header, the query', async () => {
    for (const secret of secrets) {
      for (const key of [service.key, secret]) {
        for (const name of [...headersFor(secret), 'X-Required-Scope', 'X-Key-Owner']) {
          await expectKept(secret, { path: '/verify', headers: { 'X-API-Key': key, [name]: secret } });
        }
        const path = `/verify?scope=${secret}&${secret}=${secret}&scope=a%20${secret}`;
        await expectKept(secret, { path, headers: { 'X-API-Key': key } });
      }
    }
  });

  test('/introspect: any field, its name, the client’s id and secret', async () => {
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
    for (const secret of secrets) {
      const basic = (id: string, key: string) => ({ ...form, Authorization: `Basic ${btoa(`${id}:${key}`)}` });
      const own = basic(service.id, service.key);
      for (const body of [`token=${secret}`, `${secret}=${secret}`, secret, `token=x&token_type_hint=${secret}`]) {
        await expectKept(secret, { path: '/introspect', headers: own, body });
      }
      for (const headers of [basic(secret, service.key), basic(service.id, secret), basic(secret, secret), form]) {
        const body = `token=${secret}&client_id=${secret}&client_secret=${secret}`;
        await expectKept(secret, { path: '/introspect', headers, body });
      }
    }
  });
});

test('/revoke: any token, field or name, understood or not', async () => {
  const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
  for (const secret of secrets) {
    const refused = [[secret, 1], [{ [secret]: secret }], { token: secret }, secret, `{"${secret}`];
    for (const body of refused) await expectKept(secret, { path: '/revoke', body });
    for (const body of [`${secret}=${secret}`, secret])
      await expectKept(secret, { path: '/revoke', headers: form, body });
  }
  for (const secret of secrets.slice(1)) {
    for (const body of [[secret], [{ token: secret, type: secret }]])
      await expectKept(secret, { path: '/revoke', body });
    await expectKept(secret, { path: '/revoke', headers: form, body: `token=${secret}` });
  }
});

test('pages and lists: any header, the path, the query', async () => {
  for (const path of [...PATHS, '/nope']) {
    const read = path === '/sse' ? 'HEAD' : 'GET'; // an open stream has no end
    const sentWith = (secret: string): Sent[] => [
      ...['HEAD', 'DELETE', 'OPTIONS', 'PUT'].map((method) => ({ path, method })),
      { path: `${path}?data=${secret}&sessionId=${secret}`, method: read },
      ...HEADERS.map((name) => ({ path, method: read, headers: { [name]: secret } })),
      {
        path,
        method: 'OPTIONS',
        headers: {
          Origin: 'http://localhost',
          'Access-Control-Request-Method': secret,
          'Access-Control-Request-Headers': `mcp-param-${secret}, ${secret}`,
        },
      },
    ];
    for (const secret of forms) await Promise.all(sentWith(secret).map((sent) => expectKept(secret, sent)));
  }
});

const META_VERSION = 'io.modelcontextprotocol/protocolVersion';

/** Messages with a secret in each place but the two that must come back. */
function messagesWith(secret: string): unknown[] {
  const message = (method: unknown, params?: unknown) => ({ jsonrpc: '2.0', id: 1, method, params });
  return [
    secret,
    { [secret]: secret },
    { jsonrpc: secret, id: 1, method: 'ping' },
    message(secret),
    message('ping', secret),
    message('ping', { [secret]: secret }),
    message('initialize', { protocolVersion: secret, capabilities: { [secret]: secret } }),
    message('tools/list', { cursor: secret }),
    message('resources/read', { uri: secret }),
    message('resources/read', { uri: `ui://widget/${secret}.html` }),
    message('tools/call', { name: secret }),
    message('tools/call', { name: 'get_data', arguments: secret }),
    message('ping', { _meta: { [META_VERSION]: secret, 'io.modelcontextprotocol/clientCapabilities': {} } }),
    message('ping', { _meta: { [META_VERSION]: '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': secret } }),
    { jsonrpc: '2.0', method: `notifications/${secret}`, params: { requestId: secret } },
    { jsonrpc: '2.0', id: 1, error: { message: secret } },
    ...TOOLS.flatMap((name) => [
      message('tools/call', { name, arguments: { ...VALID[name], [secret]: secret } }),
      message('tools/call', { name, arguments: { ...VALID[name], keyId: secret, expiresInDays: secret } }),
      message('tools/call', { name, arguments: { _meta: { api_key: secret } } }),
      message('tools/call', { name, arguments: {}, _meta: { api_key: secret, [secret]: secret } }),
    ]),
  ];
}

test('over /mcp, alone and in batches, and in the headers of every revision', async () => {
  for (const secret of secrets) {
    const messages = messagesWith(secret);
    for (const body of [...messages, messages]) await expectKept(secret, { path: '/mcp', headers: user, body });
    for (const name of headersFor(secret)) {
      const { body, headers } = modern('tools/call', { name: 'get_data', arguments: {} });
      await expectKept(secret, { path: '/mcp', headers: { ...headers, [name]: secret }, body });
      await expectKept(secret, {
        path: '/mcp',
        headers: { [name]: secret },
        body: { jsonrpc: '2.0', id: 1, method: 'ping' },
      });
    }
  }
});

test('over /sse, in the responses to the posts and on the stream', async () => {
  const session = await openSse(app, user);
  for (const secret of secrets) {
    for (const body of messagesWith(secret))
      expect(JSON.stringify((await session.post(body)).body)).not.toContain(secret);
    await session.post({ jsonrpc: '2.0', id: 'last', method: 'ping' });
    for (let message = await session.nextMessage(); message.id !== 'last'; message = await session.nextMessage()) {
      expect(JSON.stringify(message)).not.toContain(secret);
    }
  }
  await session.drop();
});

test('an id is the one thing that comes back: JSON-RPC asks for it', async () => {
  const [secret = ''] = secrets;
  expect(await everythingSaid({ path: '/mcp', body: { jsonrpc: '2.0', id: secret, method: 'ping' } })).toContain(
    secret,
  );
});

test('a name or scope that is a key is its owner’s to see, and no log line’s', async () => {
  for (const secret of secrets.filter(({ length }) => length <= 100)) {
    const { body } = await app.call('create_api_key', { name: secret, scopes: [secret] }, user);
    expect((await app.useKey(body.key)).status).toBe(403); // the log says which scopes it holds
    expect(await app.logText()).not.toContain(secret);
  }
});

test('a user whose name is a key or a token is not named in the log', async () => {
  const [key = '', , , token = ''] = secrets;
  for (const sub of [key, token]) {
    expect((await app.call('create_api_key', VALID.create_api_key, await bearer(app, sub))).status).toBe(200);
    expect(await app.logText()).not.toContain(sub);
  }
});

// Must come last: it checks everything above.
test('none of it is in the log, nor the secret of the tokens, nor a hash', async () => {
  const text = await app.logText();
  expect(text.split('\n').length).toBeGreaterThan(500);
  for (const secret of [...secrets, TEST_SECRET]) {
    expect(text).not.toContain(secret);
    expect(text).not.toContain(Bun.SHA256.hash(secret, 'hex'));
  }
  expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
});
