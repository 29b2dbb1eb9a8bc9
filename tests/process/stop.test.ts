// Stopping: SIGTERM, SIGINT and SIGHUP, as a supervisor, a terminal and a package runner send them.

import { describe, expect, test } from 'bun:test';
import { readFileSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { makeCertificate } from '../support/certificate.ts';
import { callOver, userHeaders, userOn } from '../support/client.ts';
import { executeAt } from '../support/database-client.ts';
import { deafClient } from '../support/deaf-client.ts';
import { diskFolder, folderWith } from '../support/folder.ts';
import { isWhole, openHttpSocket, postText } from '../support/http-socket.ts';
import { keysCommand } from '../support/keys-command.ts';
import { call, fetchMcp, openSse, post } from '../support/mcp.ts';
import { commandOf, logOf, startServer, USUAL_RUNTIME } from '../support/server-process.ts';
import { type Json, TEST_SECRET } from '../support/test-app.ts';
import { saying, toolFile } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

const JWT = { JWT_SECRET: TEST_SECRET };
/** On Deno the listener goes last, and closing is left to the client: see src/start/README.md. */
const onDeno = USUAL_RUNTIME === 'deno';
/** What a stuck request gets: a stop that waits for one takes longer, one that doesn't far less, on a busy machine too. */
const STOP_MS_MAX = 10_000;
/** A client that asks within this time after the signal gets a response: half of the notice (src/start/server.ts). */
const NOTICED_MS = 150;
const LONG_CHARS = 1_000_000;
const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';
const LATE = 'The call took longer than it may; what it began may go on';
/** The text of a tool's refusal over MCP. */
const saidBy = ({ result }: Json) => result.content[0].text;
const { certFile: TLS_CERT_FILE, keyFile: TLS_KEY_FILE, cert } = makeCertificate();

test.each<[NodeJS.Signals, string, Record<string, string>]>([
  ['SIGTERM', '', {}],
  ['SIGTERM', ' with TLS of its own', { TLS_CERT_FILE, TLS_KEY_FILE }],
  ['SIGINT', '', {}],
  ['SIGHUP', '', {}],
])('%s: a server%s ends with 0, soon: no idle connection or half-sent request holds it up', async (signal, _, tls) => {
  await using server = await startServer({ env: { ...JWT, ...tls } });
  const url = server.url.replace('127.0.0.1', 'localhost');
  const connect = () => openHttpSocket(url, 'TLS_CERT_FILE' in tls ? cert : undefined);
  for (const connection of await Promise.all(Array.from({ length: 5 }, connect))) {
    connection.socket.write(GET);
    await connection.readUntil(isWhole);
  }
  (await connect()).socket.write('GET / HT');
  await Bun.sleep(50);
  const startedMs = performance.now();
  server.signal(signal);
  expect(await server.exited).toBe(0);
  expect(performance.now() - startedMs).toBeLessThan(STOP_MS_MAX);
  expect(logOf(server)).toMatchObject([{ event: 'started' }, { event: 'stopping', signal }, { event: 'stopped' }]);
});

// The first process of a container gets no signal that it has no handler for.
test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  '%s: a server that still waits for its database has a handler',
  async (signal) => {
    using silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
    const server = Bun.spawn(commandOf(USUAL_RUNTIME), {
      cwd: diskFolder(),
      env: { PATH: process.env.PATH, PORT: '0', ...JWT, DATABASE_URL: `http://127.0.0.1:${silent.port}` },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const lines: string[] = [];
    for await (const chunk of server.stdout) {
      lines.push(new TextDecoder().decode(chunk));
      if (lines.length === 1) server.kill(signal);
    }
    expect(lines.join('')).toMatch(new RegExp(`"started".*\\n.*"stopping","signal":"${signal}"`));
    expect(await server.exited).toBe(0);
  },
);

test.skipIf(onDeno)(
  'for a moment responses say Connection: close and new connections are taken; then none are',
  async () => {
    await using server = await startServer({ env: JWT });
    const keptAlive = await openHttpSocket(server.url);
    const ask = async (responses: number) => {
      keptAlive.socket.write(GET);
      const all = await keptAlive.readUntil(
        (text) => text.split('HTTP/1.1 200').length === responses + 1 && isWhole(text),
      );
      return all.slice(all.lastIndexOf('HTTP/1.1'));
    };
    expect(await ask(1)).not.toMatch(/^connection: close/im);
    server.signal('SIGTERM');
    let responses = 1;
    let last = '';
    while (!/^connection: close/im.test(last)) {
      responses += 1;
      last = await ask(responses); // rejects if the connection went without being told
    }
    await keptAlive.closed;
    expect((await fetch(server.url)).headers.get('connection')).toBe('close');
    await server.exited;
    await expect(fetch(server.url)).rejects.toThrow();
  },
);

test.skipIf(onDeno)('a request whose handling began gets its response, after the listener has gone', async () => {
  await using server = await startServer({ env: JWT });
  const slow = await openHttpSocket(server.url);
  const body = '{"name":"slow","scopes":["read"]}';
  const { authorization } = await userHeaders('alice');
  const request = postText('/tools/create_api_key', body, { Authorization: authorization });
  slow.socket.write(request.slice(0, -10)); // the body's last bytes are to come
  await Bun.sleep(100);
  server.signal('SIGTERM');
  await waitFor(async () => !(await canConnect(server.url)));
  slow.socket.write(request.slice(-10));
  const response = await slow.readUntil(isWhole);
  expect(response).toStartWith('HTTP/1.1 200');
  expect(response).toMatch(/^connection: close/im);
  expect(await server.exited).toBe(0);
  const { stdout } = await keysCommand({ DATABASE_URL: `file:${server.folder}/data/keys.db` }, ['list', '--json']);
  expect(JSON.parse(stdout)).toMatchObject({ name: 'slow' });
});

test('a response that is read slowly arrives whole', async () => {
  const TOOLS_DIR = folderWith({ 'long.ts': toolFile('long', saying(`'x'.repeat(${LONG_CHARS})`)) });
  await using server = await startServer({ env: { ...JWT, TOOLS_DIR } });
  using slow = deafClient(server.url, postText('/tools/long', '{}'));
  await Bun.sleep(100);
  server.signal('SIGTERM');
  await waitFor(() => server.stdout().includes('"stopping"'));
  await Bun.sleep(2000); // the stop of a server that nothing holds up takes less
  let response = '';
  for (let read = slow.read(64 * 1024); read !== ''; read = slow.read(64 * 1024)) response += read;
  expect(isWhole(response)).toBe(true);
  expect(response.length).toBeGreaterThan(LONG_CHARS);
  expect(await server.exited).toBe(0);
}, 180_000);

test('a request that never ends is given up after 10 s', async () => {
  await using server = await startServer({ env: JWT });
  const stuck = await openHttpSocket(server.url);
  stuck.socket.write(postText('/tools/get_data', '{', { 'Content-Length': '100' }));
  await Bun.sleep(100);
  const startedMs = performance.now();
  server.signal('SIGTERM');
  expect(await server.exited).toBe(0);
  const tookMs = performance.now() - startedMs;
  expect(tookMs).toBeGreaterThan(9_000);
  expect(tookMs).toBeLessThan(15_000); // when a supervisor kills it
}, 180_000);

test('a call that is still under way after 10 s is 504 over every transport, and the next one of its batch begins no more', async () => {
  const run = "async () => { console.error('begun'); return new Promise<never>(() => {}); }";
  const TOOLS_DIR = folderWith({ 'endless.ts': toolFile('endless', run) });
  await using server = await startServer({ env: { ...JWT, TOOLS_DIR } });
  const session = await openSse(server);
  await session.post(call('endless'));
  const responses = [
    callOver(server.url, 'endless', {}, {}).then(({ body }) => body.detail),
    post(server, [call('endless'), { ...call('endless'), id: 2 }]).then(({ body }) => body.map(saidBy)),
    fetchMcp(server, call('endless', {}, { _meta: { progressToken: 1 } })).then((response) => response.text()),
    session.nextMessage().then(saidBy),
  ];
  await waitFor(() => server.stderr().split('begun').length > responses.length);
  server.signal('SIGTERM');
  const [rest, batch, stream, sse] = await Promise.all(responses);
  expect(rest).toBe(LATE);
  expect(batch).toEqual([LATE, expect.stringMatching(/try again$/)]);
  expect(stream).toContain(LATE);
  expect(sse).toBe(LATE);
  expect(await server.exited).toBe(0);
  expect(server.stderr().split('begun').length).toBe(responses.length + 1);
  expect(logOf(server).filter(({ event, tool }) => event === 'tool out of time' && tool === 'endless')).toHaveLength(4);
}, 180_000);

test('clients on keep-alive connections lose no request while it stops', async () => {
  await using server = await startServer({ env: { ...JWT, RATE_LIMIT_REQUESTS: '0' } });
  const { body } = await (await userOn(server)).create();
  let answered = 0;
  let signalledMs = Number.POSITIVE_INFINITY;
  const wrong: number[] = [];
  const client = async () => {
    for (;;) {
      const askedMs = performance.now();
      try {
        const response = await fetch(`${server.url}/tools/get_data`, {
          method: 'POST',
          headers: { 'x-api-key': body.key },
        });
        await response.text();
        if (response.status === 200) answered += 1;
        else wrong.push(response.status);
        // A client that is told to close goes elsewhere; here there is no elsewhere, so it is done.
        if (response.headers.get('connection') === 'close') return 'told';
      } catch {
        return askedMs - signalledMs > NOTICED_MS ? 'late' : 'lost';
      }
    }
  };
  const clients = Array.from({ length: 16 }, client);
  await waitFor(() => answered > 100);
  signalledMs = performance.now();
  server.signal('SIGTERM');
  expect(await Promise.all(clients)).not.toContain('lost');
  expect(wrong).toEqual([]);
  expect(await server.exited).toBe(0);
});

test('a stop writes last uses of a moment ago, and the database file is whole without the files beside it', async () => {
  const server = await startServer({ env: JWT });
  const alice = await userOn(server);
  await alice.use((await alice.create()).body.key);
  const before = (await alice.call('list_api_keys')).body.keys;
  expect(before[0].lastUsedAt).toBeNumber();
  expect(await server.stop()).toBe(0);
  const copy = folderWith({ 'data/keys.db': readFileSync(join(server.folder, 'data/keys.db')) });
  await using again = await startServer({ env: JWT, folder: copy });
  expect((await (await userOn(again)).call('list_api_keys')).body.keys).toEqual(before);
});

test('a stop that meets a bug ends with 1, says what it was, and leaves log and database whole', async () => {
  const server = await startServer({ env: { ...JWT, LOG_LEVEL: 'debug' } });
  const alice = await userOn(server);
  const { key } = (await alice.create()).body;
  const file = join(server.folder, 'data/keys.db');
  await executeAt(
    `file:${file}`,
    "CREATE TRIGGER broken BEFORE INSERT ON key_counts BEGIN SELECT RAISE(ABORT, 'a bug'); END",
  );
  await alice.use(key); // before a stop it is written at some time or other
  expect(await server.stop()).toBe(1);
  expect(server.stderr()).toContain('a bug');
  expect(logOf(server).at(-1)).toMatchObject({ event: 'stopping' });
  expect(statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0).toBe(0);
});

describe('a second signal', () => {
  async function stuckServer() {
    const server = await startServer({ env: JWT });
    const stuck = await openHttpSocket(server.url);
    stuck.socket.write(postText('/tools/get_data', '{', { 'Content-Length': '2' }));
    await Bun.sleep(100);
    return { server, stuck };
  }

  test('within a second changes nothing: a Ctrl-C may arrive twice', async () => {
    const { server, stuck } = await stuckServer();
    await using _server = server;
    server.signal('SIGINT');
    server.signal('SIGTERM'); // of two that are alike before it looks, the system makes one
    await waitFor(async () => !(await takesRequests(server.url))); // it has gone on with its stop
    stuck.socket.write('}');
    expect(await stuck.readUntil(isWhole)).toStartWith('HTTP/1.1 401');
    expect(await server.exited).toBe(0);
  });

  test('a second or more after the first ends it at once', async () => {
    const { server, stuck } = await stuckServer();
    await using _server = server;
    const startedMs = performance.now();
    server.signal('SIGINT');
    await waitFor(() => server.stdout().includes('"stopping"'));
    const stoppingMs = performance.now() - startedMs;
    let hasExited = false;
    const exited = server.exited.finally(() => {
      hasExited = true;
    });
    await waitFor(() => {
      if (!hasExited) server.signal('SIGINT');
      return hasExited;
    });
    const tookMs = performance.now() - startedMs;
    expect(await exited).not.toBe(0);
    expect(tookMs).toBeGreaterThan(1000);
    expect(tookMs - stoppingMs).toBeLessThan(STOP_MS_MAX);
    await stuck.closed;
  });
});

/** False once new connections are refused, or requests on them (Deno). */
const takesRequests = (url: string): Promise<boolean> =>
  fetch(url).then(
    ({ status }) => status === 200,
    () => false,
  );

function canConnect(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('close', () => socket.destroy());
  });
}
