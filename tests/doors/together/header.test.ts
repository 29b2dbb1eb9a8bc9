// `keys header`: the header for a host, from a key that stays in a file, asked for once, or from a child of it.

import { afterEach, beforeEach, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';
import { askAsPerson } from '../../support/key-request.ts';
import { keysCommand, startKeys } from '../../support/keys-command.ts';
import { bearer, createTestApp, eventsIn, type TestApp } from '../../support/test-app.ts';

const ENV = { OAUTH_DEVICE: '1' };

/** The command, with a folder of its own for what it keeps. */
function createHost(home = temporaryFolder()) {
  const file = join(home, 'mcp-key-server', 'keys.json');
  return {
    file,
    header: (...args: string[]) => keysCommand({ XDG_CONFIG_HOME: home } as object, ['header', ...args]),
    keep: (server: string, key: string) => {
      const all = JSON.parse(readFileSync(file, 'utf8'));
      writeFileSync(file, JSON.stringify({ ...all, [server]: { ...all[server], key } }));
    },
  };
}

let app: TestApp;
let host: ReturnType<typeof createHost>;
beforeEach(async () => {
  app = await createTestApp({ env: ENV });
  host = createHost();
});
afterEach(() => app[Symbol.asyncDispose]());

const keyIn = (stdout: string): string => JSON.parse(stdout)['X-API-Key'];

async function approve(stderr: string, scopes: readonly string[], approved = true) {
  const [, userCode = ''] = /asks for (\S+)/.exec(stderr) ?? [];
  const decision = { userCode, approve: approved, ...(approved && { name: 'host', scopes }) };
  expect((await askAsPerson(app, 'decision', decision, await bearer(app, 'alice'))).status).toBe(200);
}

test('asks once, goes on with the same request, keeps the key for its owner alone, and prints nothing else', async () => {
  const wish = [`${app.url}/mcp`, '--scope', 'read', '--name', 'agent'];
  const first = await host.header(...wish);
  expect(first).toMatchObject({ code: 1, stdout: '' });
  const second = await host.header(...wish);
  expect(second).toMatchObject({ code: 1, stdout: '' });
  expect(/asks for (\S+)/.exec(second.stderr)?.[1]).toBe(/asks for (\S+)/.exec(first.stderr)?.[1]);
  await approve(first.stderr, ['read']);
  const { code, stdout, stderr } = await host.header(...wish);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect((await app.useKey(keyIn(stdout))).body.key.scopes).toEqual(['read']);
  expect((await host.header(app.url)).stdout).toBe(stdout);
  expect(statSync(host.file).mode & 0o777).toBe(0o600);
  expect(statSync(join(host.file, '..')).mode & 0o777).toBe(0o700);
  expect(readdirSync(join(host.file, '..'))).toEqual(['keys.json']);
});

test('a key that has ended is asked for anew; a refusal is said once; other servers get nothing', async () => {
  await using other = await createTestApp({ env: ENV });
  const asked = await host.header(app.url);
  await approve(asked.stderr, []);
  const { stdout } = await host.header(app.url);
  expect((await host.header(other.url)).code).toBe(1);
  expect(JSON.stringify(await other.log())).not.toContain('Invalid or expired');
  await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: keyIn(stdout) }) });
  const again = await host.header(app.url);
  expect(again).toMatchObject({ code: 1, stdout: '' });
  await approve(again.stderr, [], false);
  expect((await host.header(app.url)).stderr).toContain('the person has refused: the next call asks again');
  expect((await host.header(app.url)).stderr).toContain('asks for');
});

test('--child: one child of the kept key for each name and scopes, until it has ended; a key without delegate is said', async () => {
  const child = [app.url, '--child', '10m', '--scope', 'read'];
  const asked = await host.header(...child, '--name', 'one');
  await approve(asked.stderr, ['read', 'write', 'delegate']);
  const one = await host.header(...child, '--name', 'one');
  expect(one.code).toBe(0);
  for (let calls = 0; calls < 5; calls += 1) expect(await host.header(...child, '--name', 'one')).toEqual(one);
  const others = [await host.header(...child, '--name', 'two'), await host.header(...child, '--scope', 'write')];
  expect(new Set([one, ...others].map(({ stdout }) => stdout)).size).toBe(3);
  expect((await eventsIn(app)).filter(({ kind }) => kind === 'delegated')).toHaveLength(3);
  const shown = await app.call('whoami', {}, { 'x-api-key': keyIn(one.stdout) });
  expect(shown.body).toMatchObject({ name: 'one', scopes: ['read'], parentId: expect.any(String) });
  await app.call('revoke_api_key', { keyId: shown.body.keyId }, await bearer(app, 'alice'));
  const replaced = await host.header(...child, '--name', 'one');
  expect(replaced.code).toBe(0);
  expect(replaced.stdout).not.toBe(one.stdout);
  const { key: plain } = await app.createKey('alice', { scopes: ['read'] });
  host.keep(app.url, plain);
  const refused = await host.header(...child, '--name', 'three');
  expect([refused.code, refused.stdout]).toEqual([1, '']);
  expect(refused.stderr).toContain('has no scope "delegate"');
  expect(refused.stderr).not.toContain(plain);
});

test.each([
  ['no scope', ['https://keys.example', '--child', '1h'], 2],
  ['too short a life', ['https://keys.example', '--child', '59s', '--scope', 'read'], 2],
  ['too long a life', ['https://keys.example', '--child', '25h', '--scope', 'read'], 2],
  ['plain HTTP', ['http://keys.example'], 2],
  ['no server', [], 2],
  ['a server that is away', ['http://127.0.0.1:1'], 1],
] as [string, string[], number][])('%s: nothing on stdout', async (_, args, code) => {
  expect(await host.header(...args)).toMatchObject({ code, stdout: '' });
});

test('a server that is away is said to be, whatever was to be asked of it', async () => {
  const [waiting, holding, none] = [createHost(), createHost(), createHost()];
  await waiting.header(app.url);
  const asked = await holding.header(app.url);
  await approve(asked.stderr, ['delegate']);
  expect((await holding.header(app.url)).code).toBe(0);
  await app.close();
  const child = ['--child', '10m', '--scope', 'read'];
  for (const calling of [none.header(app.url), waiting.header(app.url), holding.header(app.url, ...child)]) {
    const { code, stdout, stderr } = await calling;
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toStartWith(`keys: ${app.url} can't be reached: `);
  }
});

test('a redirect is not followed', async () => {
  using elsewhere = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.json({}) });
  using server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.redirect(elsewhere.url.href) });
  expect(await host.header(server.url.origin)).toMatchObject({ code: 1, stdout: '' });
});

/** A gateway before the server, which responds itself where it is told to. */
function startGateway() {
  let meddle: (path: string) => Response | undefined = () => undefined;
  const gateway = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const own = meddle(pathname);
      if (own !== undefined) return own;
      const headers = new Headers(request.headers);
      headers.delete('host');
      const body = request.method === 'GET' ? null : await request.arrayBuffer();
      return fetch(app.url + pathname + search, { method: request.method, headers, body });
    },
  });
  return {
    url: gateway.url.origin,
    /** Has it respond itself at a path; without one it forwards all. */
    meddle(path?: string, response?: () => Response) {
      meddle = (asked) => (asked === path ? response?.() : undefined);
    },
    [Symbol.dispose]: () => void gateway.stop(true),
  };
}

const page = (status: number) => (): Response =>
  new Response('<html><title>Attention required</title></html>', { status, headers: { 'content-type': 'text/html' } });
const json = (status: number, body: object) => (): Response => Response.json(body, { status });

const ELSEWHERE: readonly (readonly [string, () => Response])[] = [
  ...[200, 400, 401, 403, 404, 408, 429, 500, 502, 503].map((status) => [`a page, ${status}`, page(status)] as const),
  ['an error of OAuth with another status, 401', json(401, { error: 'invalid_grant' })],
  ['an error of OAuth with another status, 403', json(403, { error: 'access_denied' })],
  ['another error, 400', json(400, { error: 'bad_request' })],
  ['a problem without its code, 401', json(401, { status: 401, title: 'Unauthorized' })],
  ['an object, 200', json(200, { ok: true })],
];

test.each(ELSEWHERE)('%s from a gateway decides nothing: request, key and child stay', async (_, response) => {
  using gateway = startGateway();
  const scopes = ['read', 'delegate'];
  const child = [gateway.url, '--child', '10m', '--scope', 'read'];
  const asked = await host.header(gateway.url);
  gateway.meddle('/token', response);
  expect(await host.header(gateway.url)).toMatchObject({ code: 1, stdout: '', stderr: asked.stderr });
  gateway.meddle();
  await approve(asked.stderr, scopes);
  const given = await host.header(gateway.url);
  expect(given).toMatchObject({ code: 0, stderr: '' });
  gateway.meddle('/verify', response);
  expect(await host.header(gateway.url)).toEqual(given);
  gateway.meddle('/token', response);
  expect(await host.header(...child)).toMatchObject({ code: 1, stdout: '' });
  gateway.meddle();
  expect(await host.header(gateway.url)).toEqual(given);
  const made = await host.header(...child);
  expect(made.code).toBe(0);
  gateway.meddle('/verify', response);
  expect(await host.header(...child)).toEqual(made);
});

test('ten calls at once get the same key, and one child for each name', async () => {
  const { key } = await app.createKey('alice', { scopes: ['read', 'delegate'] });
  await host.header(app.url);
  host.keep(app.url, key);
  const tenTimes = async (...args: string[]) => {
    const all = await Promise.all(Array.from({ length: 10 }, () => host.header(app.url, ...args)));
    for (const one of all) expect(one).toMatchObject({ code: 0, stderr: '' });
    return new Set(all.map(({ stdout }) => keyIn(stdout)));
  };
  expect(await tenTimes()).toEqual(new Set([key]));
  expect((await tenTimes('--child', '10m', '--scope', 'read')).size).toBe(1);
  expect((await eventsIn(app)).filter(({ kind }) => kind === 'delegated')).toHaveLength(1);
  expect(readdirSync(join(host.file, '..'))).toEqual(['keys.json']);
});

test('ten calls at once without a key begin one request', async () => {
  const all = await Promise.all(Array.from({ length: 10 }, () => host.header(app.url)));
  expect(
    new Set(all.map(({ code, stdout, stderr }) => `${code} ${stdout} ${/asks for (\S+)/.exec(stderr)?.[1]}`)).size,
  ).toBe(1);
});

test('a silent server holds up nobody but itself', async () => {
  const reached = Promise.withResolvers<void>();
  const held = Promise.withResolvers<Response>();
  using silent = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch() {
      reached.resolve();
      return held.promise;
    },
  });
  const { key } = await app.createKey('alice', { scopes: ['read', 'delegate'] });
  await host.header(app.url);
  host.keep(app.url, key);
  const waiting = host.header(silent.url.origin);
  await reached.promise;
  expect(keyIn((await host.header(app.url)).stdout)).toBe(key);
  expect((await host.header(app.url, '--child', '10m', '--scope', 'read')).code).toBe(0);
  held.resolve(new Response('', { status: 404 }));
  expect((await waiting).code).toBe(1);
  expect(keyIn((await host.header(app.url)).stdout)).toBe(key);
});

test('a call that was killed locks nobody out', async () => {
  using gateway = startGateway();
  const home = temporaryFolder();
  const reached = Promise.withResolvers<void>();
  gateway.meddle('/device_authorization', () => {
    reached.resolve();
    return new Promise(() => {}) as never;
  });
  const killed = startKeys({ XDG_CONFIG_HOME: home }, ['header', gateway.url], temporaryFolder());
  await reached.promise;
  killed.kill('SIGKILL');
  await killed.exited;
  expect(readdirSync(join(home, 'mcp-key-server'))).toHaveLength(1); // its lock
  gateway.meddle();
  const { stderr } = await createHost(home).header(gateway.url);
  expect(stderr).toContain('asks for');
  expect(readdirSync(join(home, 'mcp-key-server'))).toEqual(['keys.json']);
});

const BEGUN = {
  device_code: 'code',
  user_code: 'ABCD-EFGH',
  verification_uri_complete: 'https://keys.example/keys#ask=ABCD-EFGH',
  expires_in: 600,
};
const KEY = `sk_test_${'a'.repeat(64)}`;

test.each<[string, object, object]>([
  ['an endless request', { expires_in: 1e308 }, {}],
  ['a request that ended long ago', { expires_in: -1e308 }, {}],
  ['a long code', { device_code: 'x'.repeat(1_000_000) }, {}],
  ['a long code for the person', { user_code: 'x'.repeat(3000) }, {}],
  ['a long URL', { verification_uri_complete: `https://keys.example/${'x'.repeat(3000)}` }, {}],
  ['no key', {}, { access_token: 'rm -rf /' }],
  ['a long key', {}, { access_token: `${KEY}${'0'.repeat(1_000_000)}` }],
  ['a key without end', {}, { access_token: KEY, expires_in: 1e308 }],
])('%s from one server: it is not kept, and what is kept of others stays', async (_, begun, made) => {
  const { key } = await app.createKey('alice', { scopes: ['read'] });
  await host.header(app.url);
  host.keep(app.url, key);
  using server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ url }) => Response.json(url.endsWith('/token') ? made : { ...BEGUN, ...begun }),
  });
  const child = ['--child', '10m', '--scope', 'read'];
  for (const more of [[], [], child, child]) {
    expect(await host.header(server.url.origin, ...more)).toMatchObject({ code: 1, stdout: '' });
    expect(statSync(host.file).size).toBeLessThan(2000);
    expect(keyIn((await host.header(app.url)).stdout)).toBe(key);
  }
});

test('what has ended is kept no longer, however many names there were', async () => {
  const { key } = await app.createKey('alice', { scopes: ['read', 'delegate'] });
  await host.header(app.url);
  const child = { key, madeAtMs: 0, endsAtMs: Date.now() - 1 };
  const request = { deviceCode: 'code', userCode: 'ABCD-EFGH', uri: 'https://keys.example', endsAtMs: 0 };
  const own = { key, requests: { old: request }, children: { job: child } };
  writeFileSync(host.file, JSON.stringify({ [app.url]: own }));
  expect((await host.header(app.url, '--child', '1h', '--scope', 'read', '--name', 'next')).code).toBe(0);
  const kept = JSON.parse(readFileSync(host.file, 'utf8'))[app.url];
  expect({ ...kept, children: Object.keys(kept.children) }).toEqual({
    key,
    requests: {},
    children: ['["next",["read"]]'],
  });
});

test('a folder that is not absolute is not made: the key is kept where it would be without it', async () => {
  const home = temporaryFolder();
  const env = { XDG_CONFIG_HOME: '~/.config', HOME: home } as object;
  expect((await keysCommand(env, ['header', app.url])).code).toBe(1);
  expect(existsSync(join(home, '.config/mcp-key-server/keys.json'))).toBe(true);
});
