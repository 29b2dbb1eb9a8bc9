// What the documents have people type or paste, where no test of a recipe or of the README does: it works as it stands.

import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { err, failure, parseConfig } from '../src/start/package/index.ts';
import { postJson } from './support/client.ts';
import { run } from './support/command.ts';
import { DOCUMENTS, ROOT, readDocument, unquoted } from './support/documents.ts';
import { temporaryFolder } from './support/folder.ts';
import { keysCommand } from './support/keys-command.ts';
import { startServer } from './support/server-process.ts';
import { bearer, createTestApp, TEST_SECRET, type TestApp } from './support/test-app.ts';

const README = readDocument('README.md');
const MCP = readDocument('src/mcp/README.md');
const KEYS = readDocument('src/keys/README.md');
const ROUTES = readDocument('src/api/README.md');
const COMMANDS = readDocument('src/commands/README.md');

/** The commands of a document: lines of its shell blocks, and what stands in the text. */
const typedIn = (document: string): string[] => {
  const { text } = readDocument(document);
  const pasted = [...text.matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)].flatMap(([, lines = '']) => lines.split('\n'));
  const inText = [...text.replace(/^ *```[\s\S]*?^ *```$/gm, '').matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
  return [...pasted, ...inText].map((line) => line.replace(/\s+/g, ' ').trim());
};
const TYPED = DOCUMENTS.flatMap((document) => typedIn(document).map((line) => ({ document, line })));

test('variables in front of a start are a configuration that the server takes', () => {
  const starts = TYPED.flatMap(({ document, line }) => {
    const [, variables] = /^((?:[A-Z_]+=(?:"[^"]*"|\S+) )+)(?:exec )?bun (?:run start|src\/main\.ts)$/.exec(line) ?? [];
    return variables === undefined ? [] : [{ document, variables }];
  });
  expect(starts.length).toBeGreaterThan(5);
  const refused = starts.flatMap(({ document, variables }) => {
    const env = Object.fromEntries(
      [...variables.matchAll(/([A-Z_]+)=("[^"]*"|\S+)/g)].map(([, name = '', value = '']) => [
        name,
        value.replaceAll('"', '').replace(/^…$/, 'libsql://keys.example').replace('…', ''),
      ]),
    );
    const parsed = parseConfig({ JWT_SECRET: TEST_SECRET, ...env });
    return parsed.ok ? [] : [{ document, variables, error: parsed.error }];
  });
  expect(refused).toEqual([]);
});

describe('the operator’s command', () => {
  /** What follows each verb, as --help says; one that has verbs of its own has a line for each. */
  const usages = async (): Promise<ReadonlyMap<string, string>> => {
    const { stdout } = await keysCommand({}, ['--help']);
    const lines = [...stdout.matchAll(/^ {2}([a-z]+)(?: (.*))?$/gm)];
    const byVerb = Map.groupBy(lines, ([, verb = '']) => verb);
    return new Map([...byVerb].map(([verb, of]) => [verb, of.map(([, , usage = '']) => usage).join(' ')]));
  };
  const optionsIn = (text: string) => [...new Set(text.match(/--[a-z-]+/g))].sort();

  test('has every verb and option that a document names', async () => {
    const known = await usages();
    const named = TYPED.filter(
      ({ line }) => /\bkeys [a-z]+/.test(line) && /bun run keys|mcp-key-server keys/.test(line),
    );
    expect(named.length).toBeGreaterThan(10);
    const unknown = named.filter(({ line }) => {
      const [, verb = '', rest = ''] = /(?:bun run|mcp-key-server) keys ([a-z]+)(.*)/.exec(line) ?? [];
      const usage = known.get(verb);
      return usage === undefined || optionsIn(rest).some((option) => !optionsIn(usage).includes(option));
    });
    expect(unknown).toEqual([]);
  });

  test('has every verb in its table, and no other', async () => {
    const [top = ''] = COMMANDS.text.split('\n## '); // the tables of later sections name fields
    const verbs = [...top.matchAll(/^\| (`[a-z`, ]+`) \| .* \|$/gm)].flatMap(([, cell]) => unquoted(cell).split(', '));
    expect(verbs.sort()).toEqual([...(await usages()).keys()].sort());
  });

  test('imports the line that its document shows', async () => {
    const folder = temporaryFolder();
    const file = join(folder, 'keys.jsonl');
    writeFileSync(file, COMMANDS.codeBlock('Import', 'json'));
    const env = { DATABASE_URL: `file:${join(folder, 'keys.db')}`, JWT_SECRET: TEST_SECRET };
    await using app = await createTestApp({ env });
    await app.createKey('alice');
    expect((await keysCommand(env, ['import', file])).stderr).toContain('1 imported');
  });
});

describe('the documents for callers', () => {
  const withKey = async (app: TestApp, text: string) =>
    text
      .replaceAll('http://127.0.0.1:3000', app.url)
      .replaceAll('sk_test_…', (await app.createKey('alice', { scopes: ['read'] })).key);

  test('the entries for clients lead to the server, with a key that it takes', async () => {
    await using app = await createTestApp();
    const entries = [README, MCP].flatMap((document) => document.codeBlocks('Connect an MCP client', 'json'));
    expect(entries).toHaveLength(3);
    for (const text of entries) {
      const entry = JSON.parse(await withKey(app, text));
      const { url, headers } = (entry.mcpServers ?? entry.servers).keys;
      const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami', arguments: {} } };
      const response = await postJson(url, message, { ...headers, accept: 'application/json, text/event-stream' });
      expect(await response.json()).toMatchObject({ result: { structuredContent: { owner: 'alice' } } });
    }
  });

  test('every redirect that is listed for a client can be registered, together with others that are not', async () => {
    const said = MCP.section('Signing in').replace(/^\|.*$/gm, ''); // documents of clients are in the table
    const listed = [...said.matchAll(/`(loopback|(?:https|cursor):[^`<]+)`/g)].map(([, uri = '']) => uri);
    await using app = await createTestApp({ env: { OAUTH_REDIRECTS: listed.join(' ') } });
    const uris = listed.map((uri) => (uri === 'loopback' ? 'http://127.0.0.1:33418/' : uri));
    expect(uris).toHaveLength(3);
    for (const uri of uris) {
      const response = await postJson(`${app.url}/register`, {
        redirect_uris: [uri, 'https://elsewhere.example/back'],
      });
      expect(await response.json()).toMatchObject({ redirect_uris: [uri] });
    }
  });

  test('a key gets the limit and the quota that are shown', async () => {
    await using app = await createTestApp();
    const wanted = JSON.parse(KEYS.codeBlock('Limits and quotas', 'json'));
    const { body } = await app.call('create_api_key', wanted, await bearer(app, 'alice'));
    expect(body).toMatchObject(wanted);
  });

  test.skipIf(Bun.which('curl') === null)('a key makes a child for an agent', async () => {
    await using app = await createTestApp();
    const parent = await app.createKey('alice', { scopes: ['read', 'delegate'] });
    const script = `${KEYS.codeBlock('Children', 'sh')}printf %s "$AGENT_KEY"`;
    const { stdout } = await run(['sh', '-c', script], { cwd: app.folder, env: { URL: app.url, KEY: parent.key } });
    const { body } = await app.call('whoami', {}, { 'x-api-key': stdout });
    const expiresAt = app.clock.nowMs() + 600_000;
    expect(body).toMatchObject({ parentId: parent.id, name: 'step 1', scopes: ['read'], expiresAt });
  });

  test('a failure in a tool’s own words is one that the server takes', () => {
    const line = readDocument('src/tools/README.md').codeBlock('Failures', 'ts');
    expect(new Function('err', 'failure', line)(err, failure)).toMatchObject({
      error: { code: 'tool_failure', status: 503, retryAfterS: 3600 },
    });
  });

  test.skipIf(Bun.which('curl') === null)('a service checks keys from memory, and passes refusals on', async () => {
    await using app = await createTestApp();
    const made = ROUTES.codeBlock('From memory: told, not asked', 'sh');
    const { stdout } = await run(['sh', '-c', made], {
      cwd: ROOT,
      env: { URL: app.url, HOME: app.folder, JWT_SECRET: TEST_SECRET },
    });
    const service = JSON.parse(stdout);
    const code = ROUTES.codeBlock('From memory: told, not asked', 'ts');
    const typed = ['http://127.0.0.1:3000', 'mcp-key-server/verifier', 'port: 8080'];
    for (const text of typed) expect(code).toContain(text);
    const file = join(app.folder, 'service.ts');
    const inPlace = [app.url, join(ROOT, 'src/doors/services/verifier.ts'), 'port: 0'];
    writeFileSync(
      file,
      typed.reduce((text, one, at) => text.replace(one, inPlace[at] ?? ''), code),
    );
    Object.assign(process.env, { SERVICE_ID: service.id, SERVICE_KEY: service.key });
    const { server, verifier } = await import(file);
    const ask = async (headers: Record<string, string>) => {
      const response = await fetch(server.url, { headers });
      return { status: response.status, headers: response.headers, body: await response.json() };
    };
    await app.keys('owner', 'Zoë Ω', '--meta', 'plan=pro');
    const { key } = await app.createKey('Zoë Ω', { rateLimit: { requests: 2, window: '1h' } });
    const body = { hello: 'Zoë Ω', plan: 'pro' };
    expect(await ask({ 'x-api-key': key })).toMatchObject({ status: 200, body });
    expect(await ask({ authorization: `Bearer ${key}` })).toMatchObject({ status: 200, body });
    const over = await ask({ 'x-api-key': key });
    expect(over.status).toBe(429);
    expect(over.headers.get('retry-after')).toBeTruthy();
    for (const headers of [{}, { 'x-api-key': 'wrong' }]) expect((await ask(headers)).status).toBe(401);
    const other = await app.createKey('bob', { scopes: ['write'] });
    expect((await ask({ 'x-api-key': other.key })).status).toBe(403);
    const named = ROUTES.section('From memory: told, not asked').match(/A caller has ([^.]*)/)?.[1] ?? '';
    const { ok, ...fields } = await verifier.verify((await app.createKey('alice')).key);
    expect(ok).toBe(true);
    expect(Object.keys(fields).sort()).toEqual([...named.matchAll(/`(\w+)`/g)].map(([, name = '']) => name).sort());
    await verifier.close();
    await server.stop(true);
  });

  test('a backend signs a user token, and makes a key with it', async () => {
    await using app = await createTestApp();
    symlinkSync(join(ROOT, 'node_modules'), join(app.folder, 'node_modules'));
    const code = ROUTES.codeBlock('User tokens of your own backend', 'ts');
    writeFileSync(join(app.folder, 'token.ts'), `${code}process.stdout.write(await userToken('alice'));\n`);
    const env = { JWT_SECRET: TEST_SECRET };
    const { stdout } = await run([process.execPath, 'token.ts'], { cwd: app.folder, env });
    const { status, body } = await app.call(
      'create_api_key',
      { name: 'n', scopes: [] },
      { authorization: `Bearer ${stdout}` },
    );
    expect(status).toBe(200);
    const { key } = body;
    expect((await app.call('whoami', {}, { 'x-api-key': key })).body).toMatchObject({ owner: 'alice' });
  });

  test.skipIf(Bun.which('curl') === null)('a service asks about a key, and whoever finds one ends it', async () => {
    await using app = await createTestApp();
    const service = await app.createKey('bob', { scopes: ['introspect'] });
    const { key } = await app.createKey('alice');
    const env = { URL: app.url, SERVICE_ID: service.id, SERVICE_KEY: service.key, KEY: key };
    const paste = async (section: string) =>
      (await run(['sh', '-c', ROUTES.codeBlock(section, 'sh')], { cwd: app.folder, env })).stdout;
    const introspect = async () => JSON.parse(await paste('`POST /introspect`: for a service that asks itself'));
    expect(await introspect()).toMatchObject({ active: true, sub: 'alice' });
    await paste('`POST /revoke`: for leaked keys');
    expect(await introspect()).toEqual({ active: false });
  });
});

test('the table of metrics has every one that is offered, and no other', async () => {
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET, METRICS_TOKEN: 'a-token-for-scrapers' } });
  const response = await fetch(`${server.url}/metrics`, { headers: { authorization: 'Bearer a-token-for-scrapers' } });
  const offered = [...(await response.text()).matchAll(/^# TYPE (\w+)/gm)].map(([, name = '']) => name);
  const listed = readDocument('src/watch/README.md')
    .table('Metrics')
    .flatMap(([names = '']) => unquoted(names).split(', '));
  expect(offered.length).toBeGreaterThan(10);
  expect(listed.sort()).toEqual(offered.sort());
});

test('the sections of the benchmark are those that its document names', () => {
  const [, named = ''] = /^Sections: ([^.]*)\./m.exec(readDocument('tests/lab/bench/README.md').text) ?? [];
  const files = readdirSync(join(ROOT, 'tests/lab/bench/sections')).map((file) => file.replace(/\.ts$/, ''));
  expect([...(named.match(/[\w-]+/g) ?? [])].sort()).toEqual(files.sort());
});

test('the alert of the metrics’ document is one of the recipe', () => {
  const [, shown = ''] = /^```\n(mcp_keys.*)\n```$/m.exec(readDocument('src/watch/README.md').text) ?? [];
  const recipe = readFileSync(join(ROOT, 'tests/recipes/metrics/alerts.yml'), 'utf8');
  expect([...recipe.matchAll(/expr: (.*)/g)].map(([, expression]) => expression)).toContain(shown);
});
