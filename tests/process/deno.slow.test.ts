// The server on Deno: the same program behind another runtime's HTTP, signals and files.

import { expect, test } from 'bun:test';
import { symlinkSync, writeFileSync } from 'node:fs';
import { connect as connectHttp2, constants } from 'node:http2';
import type { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import * as v2 from '@modelcontextprotocol/client';
import { SignJWT } from 'jose';
import PACKAGE from '../../package.json';
import { makeCertificate } from '../support/certificate.ts';
import { userHeaders } from '../support/client.ts';
import { run } from '../support/command.ts';
import { readDocument } from '../support/documents.ts';
import { rows } from '../support/everything.ts';
import { diskFolder } from '../support/folder.ts';
import { isWhole, openHttpSocket, openSocket, postText, sender, sendOverSocket } from '../support/http-socket.ts';
import { openSse, call as toolCall } from '../support/mcp.ts';
import { productionFolder } from '../support/production.ts';
import { startProxy } from '../support/proxy.ts';
import { commandOf, denoPath, type ServerProcess, startServer, untilOpen } from '../support/server-process.ts';
import { leaseOf } from '../support/service.ts';
import { freePorts, startSqld } from '../support/sqld.ts';
import { readResponse, TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

/** Permissions that a remote database makes unnecessary. */
const LOCAL_PERMISSIONS = ['--allow-read', '--allow-write'];
const MIB = 1024 * 1024;
const ROOT = join(import.meta.dir, '../..');

const start = (env: Record<string, string> = {}) =>
  startServer({ runtime: 'deno', env: { JWT_SECRET: TEST_SECRET, ...env } });

const alice = () => userHeaders('alice');

async function call(server: ServerProcess, tool: string, body: BodyInit, headers: Record<string, string> = {}) {
  const init = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body };
  return readResponse(await fetch(`${server.url}/tools/${tool}`, init));
}

test('a key lives on Deno as it does on Bun, and outlives the process', async () => {
  await using server = await start();
  const created = await call(server, 'create_api_key', '{"name":"on Deno","scopes":["read"]}', await alice());
  expect(created.status).toBe(200);
  const { id, key } = created.body;
  const used = await call(server, 'get_data', '', { 'x-api-key': key });
  expect(used.body).toMatchObject({ owner: 'alice', key: { id, name: 'on Deno', scopes: ['read'] } });
  expect(used.headers.get('ratelimit')).toStartWith('"key";r=999;');
  expect(await server.stop()).toBe(0);

  await using again = await startServer({ runtime: 'deno', env: { JWT_SECRET: TEST_SECRET }, folder: server.folder });
  const listed = await call(again, 'list_api_keys', '{}', await alice());
  expect(listed.body.keys).toMatchObject([{ id, active: true, lastUsedAt: expect.any(Number) }]);
  expect((await call(again, 'revoke_api_key', JSON.stringify({ keyId: id }), await alice())).status).toBe(200);
  expect((await call(again, 'get_data', '{}', { 'x-api-key': key })).body.code).toBe('invalid_api_key');
  expect((await call(again, 'delete_api_key', JSON.stringify({ keyId: id }), await alice())).status).toBe(200);
  expect((await call(again, 'list_api_keys', '{}', await alice())).body).toEqual({ keys: [] });
  expect(again.stdout()).not.toContain(key);
});

test('a user token of 20,000 characters, which Bun takes in no header, is refused, good as it is', async () => {
  await using server = await start();
  const long = await new SignJWT({ sub: 'alice', padding: 'x'.repeat(15_000) })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(TEST_SECRET));
  expect(long.length).toBeGreaterThan(20_000);
  const refused = await call(server, 'list_api_keys', '{}', { authorization: `Bearer ${long}` });
  expect([refused.status, refused.body.code]).toEqual([401, 'invalid_token']);
  await waitFor(() => server.stdout().includes('"reason":"too long"'));
});

test('its environment can be asked for symbols too', async () => {
  const server = join(ROOT, 'src/main.deno.ts');
  const folder = diskFolder();
  for (const name of ['node_modules', 'package.json']) symlinkSync(join(ROOT, name), join(folder, name));
  const script = join(folder, 'ask.ts');
  const text = `import { runtime } from '${server}';
console.log(String(runtime.env), runtime.env.PORT, runtime.env.TOOL_A);`;
  writeFileSync(script, text);
  const command = commandOf('deno').map((word) => (word === server ? script : word));
  const { stdout } = await run(command, { cwd: folder, env: { PORT: '1', TOOL_A: 'a' } });
  expect(stdout).toBe('[object Object] 1 a\n');
});

test('on Deno, too, a file that fails where a transaction begins is an outage, in the thread and outside of it', async () => {
  const folder = diskFolder();
  const [file, script] = ['keys.db', 'write.ts'].map((name) => join(folder, name)) as [string, string];
  writeFileSync(file, 'no database'.repeat(1000));
  const text = `import { embeddedDatabase } from '${join(ROOT, 'src/store/embedded/database.ts')}';
const db = embeddedDatabase('${file}');
const sql = 'DELETE FROM api_keys';
for (const background of [false, true]) {
  await db.writeAll([{ sql, background }]).catch(({ name, kind }) => console.log(name, kind));
}
await db.close();`;
  writeFileSync(script, text);
  for (const runtime of [[process.execPath], [commandOf('deno')[0] ?? '', 'run', '--allow-all']]) {
    const { stdout } = await run([...runtime, script], { cwd: folder, env: {} });
    expect(stdout).toBe('StoreOutage damaged\nStoreOutage damaged\n');
  }
});

test('other services ask about keys on Deno as on Bun', async () => {
  await using server = await start();
  const input = '{"name":"service","scopes":["introspect"]}';
  const { id, key } = (await call(server, 'create_api_key', input, await alice())).body;
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST', 'PURGE']) {
    const { status, headers } = await fetch(`${server.url}/verify?scope=introspect`, {
      method,
      headers: { 'x-api-key': key, origin: 'https://app.example' },
      ...(method === 'POST' && { body: 'not read' }),
    });
    expect({ method, status, id: headers.get('x-key-id'), expires: headers.get('x-key-expires') }).toEqual({
      method,
      status: 200,
      id,
      expires: '',
    });
    expect(headers.has('access-control-allow-origin')).toBe(false);
  }
  expect((await fetch(`${server.url}/verify`)).headers.get('x-key-owner')).toBe('');
  const { body: introspected } = await leaseOf(server, { id, key }, key, {});
  expect(introspected).toMatchObject({ active: true, sub: 'alice', client_id: id });
});

test('bad input gets on Deno what it gets on Bun', async () => {
  await using server = await start();
  const code = async (body: BodyInit, headers?: Record<string, string>) =>
    (await call(server, 'create_api_key', body, { ...(await alice()), ...headers })).body.code;
  expect(await code('{"name":')).toBe('invalid_json');
  expect(await code('[]')).toBe('invalid_json');
  expect(await code('{"name":"x","scopes":[],"extra":1}')).toBe('invalid_input');
  expect(await code('{}', { 'content-type': 'text/plain' })).toBe('unsupported_media_type');
  expect(await code(JSON.stringify({ name: 'x'.repeat(MIB) }))).toBe('payload_too_large');
  const unmeasured = new Blob(['"', 'x'.repeat(MIB), '"']).stream();
  expect(await code(unmeasured)).toBe('payload_too_large');
  expect(await code('{}', { host: 'evil.example' })).toBe('host_denied');
  expect(await code('{}', { origin: 'https://evil.example' })).toBe('origin_denied');
  expect(await code('{}', { authorization: 'Bearer x' })).toBe('invalid_token');
  expect((await fetch(`${server.url}/nowhere`)).status).toBe(404);
  expect((await fetch(`${server.url}/tools/get_data`)).headers.get('allow')).toBe('POST');
  const head = await fetch(`${server.url}/mcp/health`, { method: 'HEAD' });
  expect([head.status, await head.text()]).toEqual([200, '']);
});

test.each(['bun', 'deno'] as const)(
  'on %s a request over HTTP/1.1 without Host, or with an empty or a second one, is refused',
  async (runtime) => {
    await using server = await startServer({ runtime, env: { JWT_SECRET: TEST_SECRET } });
    const statusOf = async (head: string) => {
      const connection = await openHttpSocket(server.url);
      connection.socket.write(`${head}\r\n`);
      const received = await connection.readUntil((text) => text.includes('\r\n\r\n'));
      connection.socket.destroy();
      return Number(/^HTTP\/1\.[01] (\d{3})/.exec(received)?.[1]); // Deno answers HTTP/1.0 with its own version
    };
    for (const target of ['/', '/openapi.json', '/nope', '/widgets/preview?x=1']) {
      expect(await statusOf(`GET ${target} HTTP/1.1\r\n`)).toBe(400);
      expect(await statusOf(`GET ${target} HTTP/1.1\r\nHost:\r\n`)).toBe(403);
      expect([400, 403]).toContain(await statusOf(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n`));
    }
    expect(await statusOf('POST /tools/get_data HTTP/1.1\r\nContent-Length: 0\r\n')).toBe(400);
    expect(await statusOf('GET / HTTP/1.1\r\nHost: localhost\r\n')).toBe(200);
    expect(await statusOf('GET / HTTP/1.0\r\nHost: localhost\r\n')).toBe(200);
    // Old probes. Deno doesn't tell HTTP/1.0 from 1.1, so there only health responds to them.
    expect(await statusOf('GET /mcp/health HTTP/1.0\r\n')).toBe(200);
    expect(await statusOf('GET / HTTP/1.0\r\n')).toBe(runtime === 'bun' ? 200 : 400);
  },
);

test.each(['bun', 'deno'] as const)('a Host that is none takes no demand from /verify, on %s', async (runtime) => {
  await using server = await startServer({ runtime, env: { JWT_SECRET: TEST_SECRET } });
  const { key } = (await call(server, 'create_api_key', '{"name":"reads","scopes":["read"]}', await alice())).body;
  const asked = (host: string, target: string) =>
    sendOverSocket(server.url, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nX-API-Key: ${key}\r\n\r\n`);
  expect((await asked('app.example', '/verify?scope=read')).status).toBe(200);
  const hosts = ['app.example', 'a?b', '?', 'a/verify?b', 'a/verify', 'a/verify#', 'a\\b', 'a#b', 'a/mcp/health?'];
  for (const host of hosts) {
    const { status, headers } = await asked(host, '/verify?scope=write');
    expect({ host, status }).toEqual({ host, status: 403 });
    expect(headers.get('x-key-owner') ?? '').toBe('');
  }
  expect((await asked('localhost/mcp/health?', '/tools/get_data')).status).not.toBe(200);
});

test('a path with dots, or a backslash, leads on Deno where it leads on Bun', async () => {
  await using deno = await start();
  await using bun = await startServer({ env: { JWT_SECRET: TEST_SECRET } });
  const statusAt = async (server: ServerProcess, path: string) =>
    (await sendOverSocket(server.url, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)).status;
  const paths: [string, number][] = [
    ['/tools/../mcp/health', 200],
    ['/tools/%2e%2E/mcp/./health', 200],
    ['/mcp/health/x/..?y=/../', 200],
    ['/../../mcp\\health', 200],
    ['http://localhost/tools/../mcp/health', 200],
    ['/verify/../mcp', 405],
    ['/mcp/.health', 404],
    ['/mcp/health/../..', 200],
    ['/tools/..%2fmcp/health', 404],
  ];
  for (const [path, status] of paths) {
    expect([path, await statusAt(deno, path), await statusAt(bun, path)]).toEqual([path, status, status]);
  }
});

test('on SIGTERM a request under way is finished, then the process ends with 0', async () => {
  await using server = await start();
  const body = '{"name":"last","scopes":["read"]}';
  const connection = await openHttpSocket(server.url);
  const request = postText('/tools/create_api_key', body, { ...(await alice()), Expect: '100-continue' });
  connection.socket.write(request.slice(0, -body.length));
  await connection.readUntil((received) => received.startsWith('HTTP/1.1 100')); // now the server waits for its body
  const exit = server.stop();
  await waitFor(async () => (await fetch(server.url)).status === 503); // now nobody else is served
  const verified = await fetch(`${server.url}/verify`, { headers: { 'x-api-key': 'sk_test_x' } });
  expect([verified.status, verified.headers.get('x-key-owner'), verified.headers.get('connection')]).toEqual([
    503,
    '',
    'close',
  ]);
  expect(await verified.json()).toMatchObject({ status: 503, code: 'overloaded' });
  const introspected = await fetch(`${server.url}/introspect`, { method: 'POST', body: new URLSearchParams() });
  expect([introspected.headers.get('retry-after'), await introspected.json()]).toEqual([
    '1',
    { error: 'temporarily_unavailable' },
  ]);
  const ofPage = await fetch(`${server.url}/keys/update`, { headers: { origin: 'https://elsewhere.example' } });
  expect([ofPage.status, ofPage.headers.get('access-control-allow-origin')]).toEqual([403, null]);
  connection.socket.write(body);
  const response = await connection.readUntil(isWhole);
  expect(response).toContain('HTTP/1.1 200');
  expect(response.toLowerCase()).toContain('connection: close');
  expect(await exit).toBe(0);
  expect(server.stdout()).toContain('"event":"stopped"');
});

const DESCRIPTORS = 64;

test('when its descriptors are used up it serves whom it has, on Deno, and others again once there are some', async () => {
  const command = ['sh', '-c', `ulimit -n ${DESCRIPTORS} && exec "$0" "$@"`, ...commandOf('deno')];
  await using server = await startServer({ runtime: 'deno', env: { JWT_SECRET: TEST_SECRET }, command });
  const ask = await sender(server.url);
  const health = 'GET /mcp/health HTTP/1.1\r\nHost: localhost\r\n\r\n';
  expect((await ask(health)).status).toBe(200);
  const sockets: (Socket | null)[] = []; // null: refused
  while (!server.stdout().includes('Too many open files')) {
    sockets.push(await openSocket(server.url).catch(() => null));
  }
  expect((await ask(health)).status).toBe(200);
  for (const socket of sockets) socket?.destroy();
  await waitFor(async () => (await fetch(`${server.url}/mcp/health`).catch(() => null))?.ok === true);
  expect((await ask(health)).status).toBe(200);
  expect(await server.stop()).toBe(0);
});

test('bun run start:deno ends in Deno itself: its launcher would be killed, and leave the server behind', async () => {
  const script = PACKAGE.scripts['start:deno'].split(' 1>&2 && ')[1] ?? '';
  const PATH = `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`;
  await using server = await startServer({
    command: ['sh', '-c', `cd '${ROOT}' && ${script}`],
    env: { PATH, JWT_SECRET: TEST_SECRET, DATABASE_URL: `file:${diskFolder()}/keys.db` },
  });
  expect(await server.stop()).toBe(0);
  await expect(fetch(server.url)).rejects.toThrow();
});

test('without Bun it is installed and started by Deno alone, as typed, and its token is good', async () => {
  const folder = productionFolder();
  const typed = readDocument('src/start/README.md').codeBlock('Deno', 'sh', 1).trim().split('\n');
  const [install = '', serve = '', mint = ''] = typed;
  expect(typed).toEqual([install, serve, mint]);
  const env = {
    PATH: `${dirname(denoPath())}:/usr/bin:/bin`,
    HOME: process.env.HOME ?? folder,
    DENO_TLS_CA_STORE: 'mozilla,system', // the registry may be reached through a proxy that only the machine trusts
  };
  const typing = (line: string) => run(['sh', '-c', line], { cwd: folder, env });
  const installed = await typing(install);
  expect(installed.code, installed.stderr).toBe(0);
  await using server = await startServer({ command: ['sh', '-c', `exec ${serve}`], folder, env });
  const minted = await typing(mint);
  expect(minted).toMatchObject({ code: 0, stderr: '' });
  const listed = await call(server, 'list_api_keys', '{}', { authorization: `Bearer ${minted.stdout.trim()}` });
  expect(listed.body).toEqual({ keys: [] });
  expect(await server.stop()).toBe(0);
}, 180_000);

test('it serves TLS itself, also over HTTP/2, which has no Host: the name that the client gives counts', async () => {
  const { certFile, keyFile, cert } = makeCertificate();
  await using server = await start({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile, NODE_ENV: 'production' });
  expect(server.url).toStartWith('https://');
  const response = await fetch(`${server.url}/tools/list_api_keys`, {
    method: 'POST',
    headers: await alice(),
    tls: { ca: cert },
  });
  expect(await response.json()).toEqual({ keys: [] });
  expect(response.headers.get('strict-transport-security')).toBe('max-age=31536000');

  const client = connectHttp2(`https://localhost:${new URL(server.url).port}`, { ca: cert });
  const ask = (asked: Record<string, string>) =>
    new Promise<{ status: unknown; length: unknown; body: string }>((resolve, reject) => {
      const stream = client.request({ ':path': '/', ...asked });
      let body = '';
      let head: Record<string, unknown> = {};
      stream.on('response', (headers) => {
        head = headers;
      });
      stream.on('data', (chunk) => {
        body += chunk;
      });
      stream.on('end', () => resolve({ status: head[':status'], length: head['content-length'], body }));
      stream.on('error', reject);
      stream.end();
    });
  const { status, body } = await ask({});
  expect(status).toBe(200);
  expect((await ask({ ':authority': 'evil.example' })).status).toBe(403);
  expect(await ask({ ':method': 'HEAD' })).toEqual({ status: 200, length: String(body.length), body: '' });
  client.destroy();
});

test('a request that its client takes back over HTTP/2, in the middle of its body, changes nothing', async () => {
  await using server = await start({ ACCESS_LOG: '1' });
  const headers = { ':method': 'POST', 'content-type': 'application/json', ...(await alice()) };
  const client = connectHttp2(server.url);
  const lengths = [60, 60_000]; // one is counted while it is read
  for (const length of lengths) {
    const stream = client.request({ ...headers, ':path': '/tools/create_api_key', 'content-length': String(length) });
    stream.on('error', () => {});
    stream.write('{"name":"taken back","scopes":[]}');
    await new Promise<void>((resolve) => void client.ping(() => resolve())); // now the server has it
    stream.close(constants.NGHTTP2_CANCEL);
  }
  const statuses = () =>
    [...server.stdout().matchAll(/"event":"request",.*"status":(\d+)/g)].map(([, status]) => status);
  await waitFor(() => statuses().length === lengths.length);
  expect(statuses()).toEqual(['400', '400']);
  client.destroy();
  expect((await call(server, 'list_api_keys', '{}', await alice())).body).toEqual({ keys: [] });
});

// The 202 ends the request, and HTTP/2 has no Host.
test('a message over HTTP/2 calls a tool for users', async () => {
  await using server = await start();
  const headers = await alice();
  const session = await openSse(server, headers);
  const client = connectHttp2(server.url);
  const json = { 'content-type': 'application/json', ...headers };
  const stream = client.request({ ':method': 'POST', ':path': session.endpoint, ...json });
  stream.end(JSON.stringify(toolCall('list_api_keys')));
  expect((await session.nextMessage()).result.structuredContent).toEqual({ keys: [] });
  client.destroy();
  await session.drop();
});

test('a verifier on Deno leaves a connection to an HTTPS server that died silently', async () => {
  const { certFile, keyFile, cert } = makeCertificate();
  await using server = await start({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile });
  await using proxy = await startProxy(server.url);
  const make = async (scope: string) => {
    const init = {
      method: 'POST',
      headers: { ...(await alice()), 'content-type': 'application/json' },
      tls: { ca: cert },
    };
    const body = JSON.stringify({ name: scope, scopes: [scope] });
    return (await readResponse(await fetch(`${server.url}/tools/create_api_key`, { ...init, body }))).body;
  };
  const [service, first, second] = await Promise.all(['introspect', 'read', 'read'].map(make));
  const script = join(diskFolder(), 'verify.ts');
  const text = `import { createVerifier } from '${join(ROOT, 'src/doors/services/verifier.ts')}';
const url = '${proxy.url.replace('http://127.0.0.1', 'https://localhost')}';
const verifier = createVerifier({ url, id: '${service.id}', key: '${service.key}', onError() {} });
console.log((await verifier.verify('${first.key}')).ok);
await Deno.stdin.read(new Uint8Array(1));
const untilMs = performance.now() + 120_000;
let isGood = false;
while (!isGood && performance.now() < untilMs) {
  isGood = (await verifier.verify('${second.key}')).ok;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
console.log(isGood);
Deno.exit();`;
  writeFileSync(script, text);
  const [deno = ''] = commandOf('deno');
  const command = [deno, 'run', '--allow-all', '--unsafely-ignore-certificate-errors', script];
  await using child = Bun.spawn(command, { stdin: 'pipe', stdout: 'pipe', stderr: 'ignore' });
  let said = '';
  const reading = (async () => {
    for await (const chunk of child.stdout) said += new TextDecoder().decode(chunk);
  })();
  await waitFor(() => said === 'true\n');
  proxy.silence();
  child.stdin.write('\n');
  await child.stdin.end();
  await reading;
  expect(said).toBe('true\ntrue\n');
});

test('with a remote database and a secret, permission for the network and the variables is enough', async () => {
  await using sqld = await startSqld();
  await using server = await startServer({
    runtime: 'deno',
    env: { JWT_SECRET: TEST_SECRET, ...sqld.env },
    without: LOCAL_PERMISSIONS,
  });
  await untilOpen(server);
  const created = await call(server, 'create_api_key', '{"name":"remote","scopes":["read"]}', await alice());
  expect(created.status).toBe(200);
  const used = await call(server, 'get_data', '{}', { 'x-api-key': created.body.key });
  expect(used.body.owner).toBe('alice');
  expect(await server.stop()).toBe(0);
});

test('MCP clients work on both transports, and an open stream does not hold up the end', async () => {
  await using server = await start();
  const requestInit = { headers: await alice() };
  const http = new v2.Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  await http.connect(new v2.StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit }));
  const created = await http.callTool({ name: 'create_api_key', arguments: { name: 'by MCP', scopes: [] } });
  expect(created.structuredContent).toMatchObject({ name: 'by MCP' });
  await http.close();
  const sse = new v2.Client({ name: 'test', version: '1' });
  await sse.connect(new v2.SSEClientTransport(new URL(`${server.url}/sse`), { requestInit }));
  const listed = await sse.callTool({ name: 'list_api_keys', arguments: {} });
  expect(listed.structuredContent).toMatchObject({ keys: [{ name: 'by MCP' }] });
  const startedAtMs = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - startedAtMs).toBeLessThan(10_000); // which is what it would be
  await sse.close();
  expect(server.stderr()).not.toContain('rror');
});

test('commands do on Deno what they do on Bun: they write tables, and find a server that serves HTTPS', async () => {
  const { certFile: TLS_CERT_FILE, keyFile: TLS_KEY_FILE } = makeCertificate();
  const [port] = freePorts(1);
  const env = { JWT_SECRET: TEST_SECRET, PORT: String(port), TLS_CERT_FILE, TLS_KEY_FILE };
  await using server = await startServer({ env });
  const [deno = ''] = commandOf('deno');
  const command = (runtime: readonly string[], args: readonly string[]) =>
    run([...runtime, join(ROOT, 'src/cli.ts'), ...args], { cwd: server.folder, env });
  const onDeno = (...args: string[]) => command([deno, 'run', '--allow-all'], args);
  const onBun = (...args: string[]) => command([process.execPath, '--no-env-file'], args);
  for (const owner of ['alice', '日本の人', 'e\u0301']) {
    expect((await onDeno('keys', 'create', '--user', owner, '--name', 'a', '--scope', 'read')).code).toBe(0);
  }
  const listed = await onDeno('keys', 'list');
  expect(listed).toEqual(await onBun('keys', 'list'));
  expect(listed.stdout.split('\n')).toHaveLength(5);
  const { code, stdout } = await onDeno('keys', 'doctor');
  expect(stdout).toMatch(new RegExp(`^ok +server +ok at ${server.url}, `, 'm'));
  expect(code).toBe(0);
  expect(await onDeno('health')).toEqual({ code: 0, stdout: '', stderr: '' });
});

test('why a database is out of reach is said on Deno, too, without the query of its URL', async () => {
  const [away, port] = freePorts(2);
  const database = { DATABASE_URL: `http://127.0.0.1:${away}?authToken=hunter2` };
  await using server = await start({ ...database, PORT: String(port) });
  const REFUSED = 'fetch failed: tcp connect error: Connection refused (os error 111)';
  await waitFor(() => server.stdout().includes(`"reason":"${REFUSED}"`));
  const [deno = ''] = commandOf('deno');
  const command = [deno, 'run', '--allow-all', join(ROOT, 'src/cli.ts'), 'keys', 'list'];
  const { code, stderr } = await run(command, { cwd: server.folder, env: database });
  expect({ code, stderr }).toEqual({ code: 1, stderr: `mcp-key-server: store_unavailable: ${REFUSED}\n` });
  expect(server.stdout() + server.stderr()).not.toContain('hunter2');
});

const LEAVING = [
  ['Ctrl-C', '\x03'],
  ['Ctrl-D', '\x04'],
] as const;
test.each(rows(LEAVING, 1))(
  'a question of a command is left by %s on Deno, too, and a disk without space is one line',
  async (_, typed) => {
    const env = { PATH: process.env.PATH ?? '', JWT_SECRET: TEST_SECRET, PORT: '0' };
    await using server = await startServer({ env });
    const [deno = ''] = commandOf('deno');
    const keys = [deno, 'run', '--allow-all', join(ROOT, 'src/cli.ts'), 'keys'];
    const options = { cwd: server.folder, env };
    await run([...keys, 'create', '--user', 'alice', '--name', 'a'], options);
    let said = '';
    const command = Bun.spawn([...keys, 'revoke', '--all'], {
      ...options,
      terminal: {
        data(terminal, chunk) {
          const isAsked = said.includes('[y/N]');
          said += new TextDecoder().decode(chunk);
          if (!isAsked && said.includes('[y/N]')) terminal.write(typed);
        },
      },
    });
    expect(await command.exited).toBe(2);
    expect(said).toContain('nothing was changed');
    const unwritten = await run(['bash', '-c', '"$0" "$@" >/dev/full', ...keys, 'list'], options);
    expect(unwritten).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^mcp-key-server: stdout: No space [^\n]*\n$/),
    });
  },
);
