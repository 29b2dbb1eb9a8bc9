// The README is true, and so are other documents: their tables are compared. tests/process/readme.test.ts pastes its session,
// and builds the tools that it shows.

import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseConfig, type ToolDeps } from '../src/start/package/index.ts';
import { createTestApp as createPublicTestApp } from '../src/start/package/testing.ts';
import { postJson } from './support/client.ts';
import { exampleTool, ROOT, readDocument, unquoted } from './support/documents.ts';
import {
  BODY_BYTES_MAX,
  KEYS_MAX_DEFAULT,
  problemText,
  type ServerCode,
  SUBJECT_CHARS_MAX,
  TOOL_TIMEOUT_MS,
} from './support/tables.ts';
import { createTestApp, type Env, readResponse } from './support/test-app.ts';

const README = readDocument('README.md');
const CONFIG_README = readDocument('src/config/README.md');
const HTTP_README = readDocument('src/web/README.md');
const LIMITS_README = readDocument('src/ground/limits/README.md');
const TOOLS_README = readDocument('src/tools/README.md');
const PACKAGE = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

test('what is shown of an example stands in its file', () => {
  const flush = (code: string) => code.replace(/^ +/gm, '');
  const strange = (title: string, file: string) =>
    TOOLS_README.codeBlocks(title, 'ts').filter((lines) => !flush(exampleTool(file)).includes(flush(lines)));
  expect(strange('Settings', 'shop-hours.ts')).toEqual([]);
  expect(strange('Asking', 'close-order.ts')).toEqual([]);
});

test('the table of errors: every code there is, with its status', () => {
  const source = readFileSync(join(ROOT, 'src/ground/problem.ts'), 'utf8');
  const [, rows = ''] = /^const PROBLEMS = .*?\n(.*?)^\}/ms.exec(source) ?? [];
  const codes = [...rows.matchAll(/^ {2}(\w+): \{/gm)].map(([, code]) => code as ServerCode);
  const listed = HTTP_README.table('Errors').flatMap(([status, cell]) =>
    unquoted(cell)
      .split(', ')
      .map((code) => [code, Number(status)]),
  );
  expect(listed.sort()).toEqual(codes.map((code) => [code, problemText(code).status]).sort());
});

test('the table of tools: those that come with the server, their credentials and input', async () => {
  await using app = await createTestApp();
  const { body: document } = await readResponse(await fetch(`${app.url}/openapi.json`));
  // biome-ignore lint/suspicious/noExplicitAny: a document read by paths
  const tools = Object.values(document.paths).map(({ post }: any) => {
    const fields = (content: Record<string, { schema: { properties?: object } }>) =>
      Object.keys(content['application/json']?.schema.properties ?? {});
    return {
      name: post.operationId,
      jwt: Object.hasOwn(post.security[0], 'userJwt'),
      input: fields(post.requestBody.content),
    };
  });
  const quoted = (cell = '') => [...cell.matchAll(/`(\w+)`/g)].map(([, word]) => word);
  const described = README.table('Tools').map(([name, credential, input]) => ({
    name: unquoted(name),
    jwt: credential === 'user token',
    input: quoted(input),
  }));
  expect(described).toEqual(tools);
});

describe('the table of configuration', () => {
  test('names the variables that are read, all of them and no other', () => {
    const read = new Set<string>();
    const env = new Proxy<Env>({}, { get: (_target, name) => void read.add(String(name)) });
    parseConfig(env);
    expect(
      CONFIG_README.table('Variables')
        .map(([name]) => unquoted(name))
        .sort(),
    ).toEqual([...read].sort());
  });

  test('gives defaults that change nothing when they are set', () => {
    const defaults = CONFIG_README.table('Variables').filter(([, value = '']) => /^`[^`]+`$/.test(value));
    expect(defaults.length).toBeGreaterThan(7);
    for (const [name, value] of defaults) {
      expect(parseConfig({ [unquoted(name)]: unquoted(value) })).toEqual(parseConfig({}));
    }
  });
});

test('with the variables that it has for clients, those that do not have a document of their own register', async () => {
  const [, known, redirects] = /`OAUTH_CLIENTS=(\w+) OAUTH_REDIRECTS="([^"]+)" bun run start`/.exec(README.text) ?? [];
  await using app = await createTestApp({ env: { OAUTH_CLIENTS: known, OAUTH_REDIRECTS: redirects } });
  for (const uri of ['cursor://anysphere.cursor-mcp/oauth/callback', 'http://127.0.0.1:33418/']) {
    const registered = await postJson(`${app.url}/register`, { redirect_uris: [uri] });
    expect({ uri, status: registered.status }).toEqual({ uri, status: 201 });
  }
});

test('the table of limits: those of the code', () => {
  const limits = new Map(LIMITS_README.table('Keys and calls').map(([what, limit]) => [what, limit]));
  expect(limits.get('request body')).toStartWith(`${BODY_BYTES_MAX / 1024 / 1024} MiB;`);
  expect(limits.get('keys of an owner, in any state, by default')).toStartWith(
    `${KEYS_MAX_DEFAULT.toLocaleString('en')};`,
  );
  expect(limits.get('user id (`sub`, and the claim that owns keys)')).toStartWith(`${SUBJECT_CHARS_MAX} characters;`);
  expect(limits.get('a tool call')).toStartWith(`${TOOL_TIMEOUT_MS / 1000} s,`);
});

test('the table of what the package exports: every name that is no type, and no other', async () => {
  const modules = [import('../src/start/package/index.ts'), import('../src/start/package/testing.ts')];
  const exported = (await Promise.all(modules)).flatMap((module) => Object.keys(module));
  const listed = TOOLS_README.table('As a package').flatMap(([, cell = '']) => cell.match(/(?<=`)\w+(?=`)/g) ?? []);
  expect(listed.sort()).toEqual(exported.sort());
});

test('the members of a test app, of its clock, and of what is done with keys: every one is named', async () => {
  let keys: readonly string[] = [];
  const look = (deps: ToolDeps) => {
    keys = Object.keys(deps.keys);
    return [];
  };
  await using app = await createPublicTestApp({ tools: [look] });
  const [folder, tests] = [TOOLS_README.section('The folder'), TOOLS_README.section('Tests')];
  const own = ['order', 'mint', 'listChildren', 'usesToday', 'planOf']; // the server's
  expect(keys.filter((name) => !folder.includes(`\`${name}\``))).toEqual(own);
  const members = [...Object.keys(app), ...Object.keys(app.clock)];
  expect(members.filter((name) => !new RegExp(`\\b${name}\\b`).test(tests))).toEqual([]);
});

test('four run-time packages, all versions exact', () => {
  expect(Object.keys(PACKAGE.dependencies)).toHaveLength(4);
  for (const version of Object.values({ ...PACKAGE.dependencies, ...PACKAGE.devDependencies })) {
    expect(version).toMatch(/^\d+\.\d+\.\d+[\w.-]*$/);
  }
});
