// REUSE_PORT: several processes on Bun listen on one port, on one database file. Linux gives each its share of the
// connections. What processes on a file share is in store/ and uses/.

import { expect, test } from 'bun:test';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Certificate, makeCertificate } from '../support/certificate.ts';
import { userHeaders } from '../support/client.ts';
import { folderWith, temporaryFolder } from '../support/folder.ts';
import { isShown } from '../support/http-socket.ts';
import { runToExit, type ServerOptions, startServer } from '../support/server-process.ts';
import {
  CLIENTS,
  type Connection,
  clientsOf,
  connected,
  connectedToBoth,
  makeKey,
  sharing,
} from '../support/shared-port.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { refusedWithin } from '../support/wait-for.ts';

const BOUND_MS = 250;

test('a key made by one process works in the other at once, and ends there within the bound', async () => {
  await using started = new AsyncDisposableStack();
  const { url, startTwo } = sharing(started, { REVOCATION_LAG_MAX_MS: String(BOUND_MS) });
  await startTwo();
  const both = await connectedToBoth(url);
  for (const [here, there] of [both, both.toReversed() as [Connection, Connection]]) {
    const { id, headers } = await makeKey(here);
    for (const { call } of both) expect((await call('get_data', {}, headers)).status).toBe(200);
    await here.call('revoke_api_key', { keyId: id }, await userHeaders('alice'));
    const sinceMs = performance.now();
    expect((await here.call('get_data', {}, headers)).status).toBe(401);
    await refusedWithin(BOUND_MS, async () => (await there.call('get_data', {}, headers)).status, { sinceMs });
  }
});

test('GET /sse says that it needs a single process, and GET / does not name it', async () => {
  await using started = new AsyncDisposableStack();
  const { url, start } = sharing(started);
  await start();
  const response = await fetch(`${url}/sse`);
  expect(response.status).toBe(503);
  expect(response.headers.get('retry-after')).toBeNull();
  expect(await response.json()).toMatchObject({
    code: 'sse_unavailable',
    detail: 'Several processes share this port, and /sse needs a single one; use /mcp',
  });
  expect((await fetch(`${url}/messages?sessionId=1`, { method: 'POST' })).status).toBe(404);
  const about = await (await fetch(url)).text();
  expect(about).toMatch(/\/mcp +MCP, Streamable HTTP\n +\S+\/tools\//);
  expect(about).not.toContain('sse');
});

test('a process that does not share finds the port in use, and so does one that wants to share with it', async () => {
  await using started = new AsyncDisposableStack();
  const { url, start } = sharing(started);
  await start();
  const { port } = new URL(url);
  const alone = { JWT_SECRET: TEST_SECRET, PORT: port };
  expect(await runToExit({ env: alone })).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use') });
  await started.disposeAsync();
  await using _alone = await startServer({ env: alone });
  const late = await runToExit({ env: { ...alone, REUSE_PORT: '1' } });
  expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use') });
});

/** Loaded before a server, which then takes this machine for one that is not Linux. */
const OTHER_SYSTEM = "Object.defineProperty(process, 'platform', { value: 'darwin' });";

test.each<[string, Partial<ServerOptions>]>([
  ['systems other than Linux', { preload: [join(folderWith({ 'other.ts': OTHER_SYSTEM }), 'other.ts')] }],
  ['Deno', { runtime: 'deno' }],
])('%s: the start is refused', async (_, options) => {
  const { code, stderr } = await runToExit({ runtime: 'bun', env: { PORT: '3000', REUSE_PORT: '1' }, ...options });
  expect(code).toBe(1);
  expect(stderr).toBe(
    'mcp-key-server: REUSE_PORT: expected to be unset; only Bun on Linux shares a port among processes\n',
  );
});

test('a renewed certificate is taken up by restarts, one after the other, without a gap', async () => {
  await using started = new AsyncDisposableStack();
  const [old, renewed] = [makeCertificate(), makeCertificate()];
  const folder = temporaryFolder();
  const files = { TLS_CERT_FILE: join(folder, 'server.crt'), TLS_KEY_FILE: join(folder, 'server.key') };
  const put = ({ certFile, keyFile }: Certificate) => {
    copyFileSync(certFile, files.TLS_CERT_FILE);
    copyFileSync(keyFile, files.TLS_KEY_FILE);
  };
  const { url, start, startTwo } = sharing(started, files);
  put(old);
  const servers = await startTwo();
  put(renewed);
  for (const server of servers) {
    await start(); // beside it
    server.signal('SIGHUP');
    expect(await server.exited).toBe(0);
    const response = await fetch(url.replace('http:', 'https:'), { tls: { rejectUnauthorized: false } });
    expect(response.status).toBe(200);
  }
  for (let tries = 0; tries < 20; tries += 1) expect(await isShown(url, renewed)).toBe(true);
});

test('when one is killed only requests under way in it fail', async () => {
  await using started = new AsyncDisposableStack();
  const { url, startTwo } = sharing(started, { RATE_LIMIT_REQUESTS: '0' });
  const [first] = await startTwo();
  const clients = await clientsOf(url, true);
  await clients.more();
  await first.kill();
  await clients.more();
  await clients.end();
  const { instance: survivor } = await connected(url);
  expect(clients.lost.length).toBeGreaterThan(0);
  expect(clients.lost.length).toBeLessThanOrEqual(2 * CLIENTS); // one under way, one on a connection not yet accepted
  expect(clients.lost).not.toContain(survivor);
});

/** A network of its own, on which the kernel gives connections of a closed socket to the others on its port. */
const WITH_MIGRATION = [
  ...['unshare', '--map-root-user', '--net', 'sh', '-c'],
  'ip link set lo up && echo 1 > /proc/sys/net/ipv4/tcp_migrate_req && exec "$@"',
  'sh',
];
const WITHOUT_MIGRATION = Bun.spawnSync([...WITH_MIGRATION, 'true']).exitCode !== 0;

test.skipIf(WITHOUT_MIGRATION)(
  'a restart of one after the other fails no request',
  async () => {
    const restart = Bun.spawn([...WITH_MIGRATION, process.execPath, join(import.meta.dir, 'rolling-restart.ts')]);
    expect(await new Response(restart.stdout).json()).toEqual([]);
    expect(await restart.exited).toBe(0);
  },
  180_000,
);
