// Tools of one's own, in a folder beside the server: they are found and called, and one that can't be used stops the
// start with one line.

import { describe, expect, test } from 'bun:test';
import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { exampleTool, ROOT, readDocument } from '../support/documents.ts';
import { rows } from '../support/everything.ts';
import { failingStart } from '../support/failing-start.ts';
import { diskFolder, fill, folderWith, temporaryFolder } from '../support/folder.ts';
import { modern, post, request } from '../support/mcp.ts';
import { commandOf, type Runtime, runToExit, type ServerProcess, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { SERVER_TOOLS, saying, toolFile } from '../support/tools.ts';
import { transportOf } from '../support/transports.ts';
import { waitFor } from '../support/wait-for.ts';

const EXAMPLE = readDocument('README.md').codeBlock('A tool of your own', 'ts');
const SETTINGS_EXAMPLE = exampleTool('shop-hours.ts');
const ASKING_EXAMPLE = exampleTool('close-order.ts');
const PROMPT_EXAMPLE = readDocument('src/tools/README.md').codeBlock('Prompts', 'ts');

/** The same after `head`, responding with `text`, an expression. */
const tool = (name: string, text = "'hello'", head = '') => head + toolFile(name, saying(text));

const start = (runtime: Runtime, files: Readonly<Record<string, string>>, env: Readonly<Record<string, string>> = {}) =>
  startServer({ runtime, folder: fill(diskFolder(), files), env: { JWT_SECRET: TEST_SECRET, ...env } });

/** Deno with the flag that lets it find packages beside the folder. */
const withPackages = () =>
  commandOf('deno').flatMap((word) => (word === 'run' ? [word, '--node-modules-dir=manual'] : [word]));

async function namesOf(server: ServerProcess): Promise<string[]> {
  const { body } = await post(server, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
  const names: string[] = body.result.tools.map(({ name }: { name: string }) => name);
  return names.filter((name) => !SERVER_TOOLS.includes(name));
}

describe.each(rows(['bun', 'deno'] as const, 1))('on %s', (runtime) => {
  test("the README's example is called over every transport, without node_modules, from a module of the server", async () => {
    await using server = await start(runtime, { 'tools/list-orders.ts': EXAMPLE });
    const create = { name: 'n', scopes: ['read:orders'] };
    const { key } = (await callOver(server.url, 'create_api_key', create, await userHeaders('alice'))).body;
    for (const transport of [0, 1, 3]) {
      const called = await transportOf(transport, server.url)('list_orders', { status: 'open' }, { 'x-api-key': key });
      expect(called).toMatchObject({ kind: 'ok', output: { owner: 'alice', orders: [{ id: 'order-1' }] } });
    }
    expect((await callOver(server.url, 'list_orders')).status).toBe(401);
  });

  test('the example of a tool that asks gets its answer with the next call', async () => {
    await using server = await start(runtime, { 'tools/close-order.ts': ASKING_EXAMPLE });
    const create = { name: 'n', scopes: [] };
    const { key } = (await callOver(server.url, 'create_api_key', create, await userHeaders('alice'))).body;
    const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } };
    const round = async (params: object = {}) => {
      const order = { name: 'close_order', arguments: { orderId: '7' }, ...params };
      const { body, headers } = modern('tools/call', order, capabilities);
      return (await post(server, body, { ...headers, 'x-api-key': key })).body.result;
    };
    const { inputRequests, requestState } = await round();
    expect(inputRequests.closing.params.message).toBe('Close the order 7?');
    const closing = { action: 'accept', content: { reason: 'sent' } };
    const { structuredContent } = await round({ inputResponses: { closing }, requestState });
    expect(structuredContent).toEqual({ closed: true });
    expect((await callOver(server.url, 'close_order', { orderId: '7' }, { 'x-api-key': key })).body.closed).toBe(false);
  });

  test('the example of a prompt is listed, got and completed', async () => {
    await using server = await start(runtime, { 'tools/plan-visit.ts': PROMPT_EXAMPLE });
    const create = { name: 'n', scopes: [] };
    const { key } = (await callOver(server.url, 'create_api_key', create, await userHeaders('alice'))).body;
    const ask = async (method: string, params: object = {}) =>
      (await post(server, request(method, params), { 'x-api-key': key })).body.result;
    expect((await ask('prompts/list')).prompts).toMatchObject([{ name: 'plan_visit', arguments: [{ name: 'city' }] }]);
    const { messages } = await ask('prompts/get', { name: 'plan_visit', arguments: { city: 'Porto' } });
    expect(messages[0].content.text).toBe('Plan a visit to Porto.');
    const half = { ref: { type: 'ref/prompt', name: 'plan_visit' }, argument: { name: 'city', value: 'Par' } };
    expect((await ask('completion/complete', half)).completion.values).toEqual(['Paris', 'Parma']);
  });

  test('the example with settings gets them from the environment; without them, or with wrong ones, nothing starts', async () => {
    const files = { 'tools/shop-hours.ts': SETTINGS_EXAMPLE };
    await using server = await start(runtime, files, { TOOL_SHOP_URL: 'http://127.0.0.1:1/' }); // a closed port
    const create = { name: 'n', scopes: [] };
    const { key } = (await callOver(server.url, 'create_api_key', create, await userHeaders('alice'))).body;
    const hours = await callOver(server.url, 'shop_hours', {}, { 'x-api-key': key });
    expect(hours.body).toMatchObject({ status: 502, code: 'shop_away' });
    for (const [env, said] of [
      [{}, 'TOOL_SHOP_URL: expected a value, but it is not set'],
      [{ TOOL_SHOP_URL: 'hunter2' }, 'TOOL_SHOP_URL: expected the URL of the shop'],
    ] as const) {
      const { code, stderr } = await runToExit({ runtime, folder: fill(diskFolder(), files), env });
      expect(code).toBe(1);
      expect(stderr).toMatch(/^mcp-key-server: tools\/shop-hours\.ts:\d+:\d+: [^\n]*\n$/);
      expect(stderr).toEndWith(`: ${said}\n`);
    }
  });

  test.each([
    [
      'without a default export',
      'export const tool = 1;',
      'expected a default export (deps: ToolDeps) => Tool or Tool[], but it has none; tools/_a.ts would be left out',
    ],
    [
      'that throws',
      "\nthrow new Error('no database\\nat all');",
      /:2:\d+: no database; correct it, or rename it to tools\/_a\.ts to leave it out$/,
    ],
    ['with an error of syntax', '\n\nexport default (  => 3;', /:3:\d+: .*; correct it, or rename it to tools\/_a\.ts/],
    [
      'that ends the process',
      'process.exit(0);',
      'expected it to be loaded, but it ended the server; correct it, or rename it to tools/_a.ts to leave it out',
    ],
    ["with a name of the server's own", tool('whoami'), "expected another tool name, whoami is the server's own"],
  ])('a file %s stops the start with one line', async (_, text, expected) => {
    const { code, stderr, stdout } = await runToExit({ runtime, folder: fill(diskFolder(), { 'tools/a.ts': text }) });
    expect({ code, stdout, lines: stderr.match(/\n/g)?.length }).toEqual({ code: 1, stdout: '', lines: 1 });
    expect(stderr).toStartWith('mcp-key-server: tools/a.ts:');
    if (typeof expected === 'string') expect(stderr).toBe(`mcp-key-server: tools/a.ts: ${expected}\n`);
    else expect(stderr.trim()).toMatch(expected);
  });
});

test.each([
  [
    'a default export that is no function',
    'export default { name: 1 };',
    'expected a default export (deps: ToolDeps) => Tool or Tool[], but it is of type object',
  ],
  ['a file that throws nothing at all', 'throw null;', 'null; correct it, or rename it to tools/_a.ts to leave it out'],
  [
    'no tool',
    'export default () => ({});',
    'expected its default export to return what defineTool makes, or an array of that',
  ],
  [
    'prompts that are no function',
    `${tool('a')}export const prompts = [];`,
    'expected the export prompts to be a function (deps: ToolDeps) => Prompt or Prompt[]',
  ],
  [
    'prompts that are none',
    `${tool('a')}export const prompts = () => [{ name: 'p' }];`,
    'expected its export prompts to return what definePrompt makes, or an array of that',
  ],
  [
    'a prompt with an argument that is no string',
    `import { definePrompt, ok, v } from 'mcp-key-server';
export const prompts = () => definePrompt(() => ok({}), { name: 'p', title: '', description: '',
  arguments: v.strictObject({ count: v.number() }), run: () => ok({ messages: [] }) });`,
    /p: arguments: expected strings, got another type for "count"$/,
  ],
  [
    'a promise of a tool',
    'export default async () => [];',
    'expected its default export to return what defineTool makes, or an array of that',
  ],
  [
    'a function that throws',
    'export default ({ guards }) => [guards.rateLimit({ requests: 1, window: "1x" })];',
    /:1:\d+: rate limit: window: expected a window like 30s, 5m, 1h or 1d, got "1x"$/,
  ],
  [
    'a misspelt option of a rate limit',
    'export default ({ guards }) => [guards.rateLimit({ request: 1, window: "1m", key: () => "" })];',
    /:1:\d+: rate limit: request: unknown field; the fields are requests, window, key$/,
  ],
  [
    'a rate limit without a key',
    'export default ({ guards }) => [guards.rateLimit({ requests: 1, window: "1m" })];',
    /:1:\d+: rate limit: key: expected a function that names the bucket of a call, got undefined$/,
  ],
  [
    'a name that MCP does not allow',
    tool('a b'),
    /: defineTool: name: expected 1-128 letters, digits, "_", "-" or ".", got "a b"$/,
  ],
  [
    'a schema that clients cannot be told',
    tool('a').replace('v.strictObject({})', 'v.strictObject({ d: v.date() })'),
    'a: input: d: expected what JSON Schema can express, got v.date()',
  ],
  [
    'a field of a field that clients cannot be told',
    tool('a').replace("name: 'a',", "name: 'a', output: v.object({ o: v.object({ at: v.optional(v.date()) }) }),"),
    'a: output: o.at: expected what JSON Schema can express, got v.date()',
  ],
  [
    'a header that clients would not send',
    tool('a').replace(
      'v.strictObject({})',
      "v.strictObject({ n: v.pipe(v.number(), v.metadata({ 'x-mcp-header': 'N' })) })",
    ),
    'a: x-mcp-header of n: expected a parameter that is text, an integer or a boolean, got "number"',
  ],
  [
    'a name that the module does not have',
    "import { start } from 'mcp-key-server'; export default start;",
    /Export named 'start' not found in module 'mcp-key-server'/,
  ],
  ['a name that is a path to another', tool('..'), /: defineTool: name: expected 1-128 letters, .+, got "\.\."$/],
  [
    'hints that clients would refuse',
    tool('a').replace('readOnlyHint: true', "readOnlyHint: 'yes'"),
    'a: annotations: expected hints that are true or false, like { readOnlyHint: true }, got object',
  ],
  [
    'capabilities that no client declares',
    tool('a').replace("name: 'a',", "name: 'a', requiresClient: { sampling: true },"),
    'a: requiresClient: expected capabilities, like { elicitation: {} }, got object',
  ],
  [
    'an output whose type is not said',
    tool('a').replace(
      "name: 'a',",
      "name: 'a', output: v.object({ o: v.object({ n: v.pipe(v.number(), v.transform(String)) }) }),",
    ),
    'a: output: o.n: expected the schema of its result at the end of a pipe with transform, like v.string()',
  ],
  [
    'an input with a check that is async, which would let anything pass',
    tool('a').replace(
      'v.strictObject({})',
      'v.object({ o: v.pipeAsync(v.string(), v.checkAsync(async () => false)) })',
    ),
    'a: input: expected a schema that decides at once, got an async part; that belongs into run',
  ],
  [
    'a tool without a name',
    tool('a').replace("name: 'a',", ''),
    'defineTool: name: expected 1-128 letters, digits, "_", "-" or ".", got undefined',
  ],
  [
    'a tool without a description',
    tool('a').replace("description: 'A tool.',", ''),
    'a: description: expected text, got undefined',
  ],
  [
    'a tool without input',
    tool('a').replace(/input: .*,/, ''),
    'a: input: expected a schema of valibot 1, like v.strictObject({}), got undefined',
  ],
  [
    'a schema of valibot before 1',
    tool('a').replace(
      'v.strictObject({})',
      "{ kind: 'schema', type: 'object', entries: {}, _run: (dataset) => dataset }",
    ),
    'a: input: expected a schema of valibot 1, like v.strictObject({}), got object',
  ],
  ['a tool without a function', tool('a').replace(/run: .*,/, ''), 'a: run: expected a function, got undefined'],
  [
    'a mistyped guard',
    tool('a').replace('() =>', '({ guards }) =>').replace('() => ok({})', 'guards.apikey'),
    'defineTool: expected a guard, and then the definition: defineTool(guards.apiKey, or () => ok({}) to let everybody call it, { … })',
  ],
  [
    'a mistyped guard in a sequence',
    `import { sequence } from 'mcp-key-server';
export default ({ guards }) => sequence(guards.apiKey, guards.scope);`,
    'sequence: expected a guard in place 2, got undefined',
  ],
  ...['scopes', 'rateLimit'].flatMap((name): [string, string, string | RegExp][] => [
    [
      `guards.${name} that is not called, in a sequence`,
      `import { defineTool, ok, sequence, v } from 'mcp-key-server';
export default ({ guards }) => defineTool(sequence(guards.apiKey, guards.${name}), { name: 'a', title: '',
  description: '', input: v.strictObject({}), run: () => ok({ content: [] }) });`,
      /:2:\d+: sequence: expected a guard in place 2, got one that is to be called first$/,
    ],
    [
      `guards.${name} that is not called`,
      tool('a').replace('() =>', '({ guards }) =>').replace('() => ok({})', `guards.${name}`),
      /: defineTool: expected a guard, and then the definition: /,
    ],
  ]),
  [
    'scopes before the key',
    `import { sequence } from 'mcp-key-server';
export default ({ guards }) => [sequence(guards.scopes('read'), guards.apiKey)];`,
    /:2:\d+: sequence: expected the guard of scopes after that of the API key$/,
  ],
  [
    'scopes without a key',
    tool('a').replace('() =>', '({ guards }) =>').replace('() => ok({})', "guards.scopes('read')"),
    'a: expected guards.apiKey before guards.scopes: only keys have scopes',
  ],
  [
    'a sequence of no guards',
    `import { sequence } from 'mcp-key-server';
export default () => [sequence()];`,
    /:2:\d+: sequence: expected guards, got none: everybody would pass$/,
  ],
  [
    'a guard of scopes that names none',
    'export default ({ guards }) => [guards.scopes()];',
    /:1:\d+: scopes: expected one scope or more, got none: every key would pass$/,
  ],
  [
    'a guard of admins alone',
    tool('a').replace('() =>', '({ guards }) =>').replace('() => ok({})', 'guards.admin'),
    'a: expected guards.userJwt before guards.admin: only people are admins',
  ],
  [
    'a guard of admins after that of keys',
    tool('a', undefined, "import { sequence } from 'mcp-key-server';")
      .replace('() =>', '({ guards }) =>')
      .replace('() => ok({})', 'sequence(guards.apiKey, guards.admin)'),
    'a: expected guards.userJwt before guards.admin: only people are admins',
  ],
  [
    'a guard of admins before that of users',
    `import { sequence } from 'mcp-key-server';
export default ({ guards }) => [sequence(guards.admin, guards.userJwt)];`,
    /:2:\d+: sequence: expected the guard of admins after that of the user token$/,
  ],
  [
    'a sequence for two credentials, of which the second would take the place of the first',
    `import { sequence } from 'mcp-key-server';
export default ({ guards }) => [sequence(guards.userJwt, guards.apiKey)];`,
    /:2:\d+: sequence: expected one guard that asks for a credential, got several$/,
  ],
  ...["'read data'", "''", "['read']", '5', 'undefined'].map((scope): [string, string, RegExp] => [
    `a scope that no key can have: ${scope}`,
    `import { defineTool, ok, sequence, v } from 'mcp-key-server';
export default ({ guards }) => defineTool(sequence(guards.apiKey, guards.scopes(${scope})), { name: 'a', title: '',
  description: '', input: v.strictObject({}), run: () => ok({ content: [] }) });`,
    /: a: guards\.scopes: expected scopes that a key can have, like "read", got .+$/,
  ]),
  [
    'input that is no object',
    tool('a').replace('v.strictObject({})', 'v.string()'),
    'a: input: expected the schema of an object, got one of type string',
  ],
  [
    'output that is no object',
    tool('a').replace("name: 'a',", "name: 'a', output: v.array(v.string()),"),
    'a: output: expected the schema of an object, got one of type array',
  ],
  [
    'a prompt with arguments that are no object',
    `import { definePrompt, ok, v } from 'mcp-key-server';
export const prompts = () => definePrompt(() => ok({}), { name: 'p', title: '', description: '',
  arguments: v.string(), run: () => ok({ messages: [] }) });`,
    /: p: arguments: expected the schema of an object, got one of type string$/,
  ],
  [
    'a prompt without arguments',
    `import { definePrompt, ok } from 'mcp-key-server';
export const prompts = () => definePrompt(() => ok({}), { name: 'p', title: '', description: '', run: () => ok({ messages: [] }) });`,
    'p: arguments: expected a schema of valibot 1, like v.strictObject({}), got undefined',
  ],
  [
    'a prompt without a guard',
    `import { definePrompt, ok, v } from 'mcp-key-server';
export const prompts = () => definePrompt({ name: 'p', title: '', description: '', arguments: v.object({}), run: () => ok({ messages: [] }) });`,
    'definePrompt: expected a guard, and then the definition: definePrompt(guards.apiKey, or () => ok({}) to let everybody call it, { … })',
  ],
  [
    'a widget that no page is',
    tool('a').replace("name: 'a'", "widget: 'ui://a', name: 'a'"),
    'expected the widget of a to be the uri of a resource, got "ui://a"',
  ],
  [
    'pages that are none',
    `${tool('a')}export const resources = [{ uri: 'ui://x' }];`,
    'resources[0]: name: expected text, got undefined',
  ],
  [
    'a page with a misspelt option',
    `${tool('a')}export const resources = [{ uri: 'a:b', mime: '' }];`,
    'resources[0]: mime: unknown field; the fields are uri, name, title, description, mimeType, meta, read',
  ],
  [
    'a misspelt option of a tool',
    tool('a').replace("name: 'a'", "sampel: {}, name: 'a'"),
    'a: sampel: unknown field; the fields are name, title, description, timeoutMs, input, output, annotations, requiresClient, widget, sample, cost, run',
  ],
  [
    'a misspelt option of a prompt',
    `import { definePrompt, ok, v } from 'mcp-key-server';
export const prompts = () => definePrompt(() => ok({}), { name: 'p', title: '', description: '',
  arguments: v.object({}), completes: {}, run: () => ok({ messages: [] }) });`,
    /: p: completes: unknown field; the fields are name, title, description, timeoutMs, arguments, run, complete$/,
  ],
  [
    'a sample that is no output',
    tool('a').replace("name: 'a'", "output: v.object({ n: v.number() }), sample: { n: '1' }, name: 'a'"),
    'a: the sample does not fit the output: n: Expected number',
  ],
  [
    'a page whose meta is none',
    `${tool('a')}export const resources = [{ uri: 'ui://x', name: '', title: '', description: '', mimeType: '', read() {}, meta: 1 }];`,
    'resources[0]: meta: expected an object, got 1',
  ],
])('%s stops the start with one line', async (_, text, expected) => {
  const folder = folderWith({ 'tools/a.ts': text });
  const failed = await failingStart({ TOOLS_DIR: `${folder}/tools` });
  const { code } = failed;
  const stderr = failed.stderr.replaceAll(`${folder}/`, '');
  expect({ code, lines: stderr.match(/\n/g)?.length }).toEqual({ code: 1, lines: 1 });
  if (typeof expected === 'string') expect(stderr).toBe(`mcp-key-server: tools/a.ts: ${expected}\n`);
  else expect(stderr.trim()).toMatch(expected);
  expect(stderr).toStartWith('mcp-key-server: tools/a.ts');
});

test.each(rows(['bun', 'deno'] as const, 1))(
  'a place is in the file, however it is called and wherever it is (%s)',
  async (runtime) => {
    const text = (code: string) => `import { defineTool } from 'mcp-key-server';\n\nexport default () => ${code};`;
    for (const [code, place] of [
      ['[defineTool()]', ':3:\\d+'],
      ['[{}]', ''],
    ] as const) {
      const folder = fill(diskFolder(), { 'my tools/tool.ts': text(code) });
      const { stderr } = await runToExit({ runtime, folder, env: { TOOLS_DIR: 'my tools' } });
      expect(stderr).toMatch(
        new RegExp(`^mcp-key-server: my tools/tool\\.ts${place}: (defineTool: )?expected [^\\n]*\\n$`),
      );
    }
    const spread = { 'tools/tool.ts': tool('a').replace('v.strictObject({})', 'v.strictObject({ d: v.date() })') };
    const { stderr } = await runToExit({ runtime, folder: fill(diskFolder(), spread) });
    expect(stderr).toBe(
      'mcp-key-server: tools/tool.ts: a: input: d: expected what JSON Schema can express, got v.date()\n',
    );
  },
);

test('a variable that is nearly one that a tool reads is a warning', async () => {
  const env = { TOOL_SHOP_URL: 'http://127.0.0.1:1/', TOOL_SHOP_TIMEOUT_M: '5', TOOL_OTHER: 'x' };
  await using server = await start('bun', { 'tools/shop-hours.ts': SETTINGS_EXAMPLE }, env);
  await waitFor(() => server.stdout().includes('"variable perhaps misspelt"'));
  const slips = server.stdout().match(/"variable perhaps misspelt".*/g);
  expect(slips).toEqual([expect.stringContaining('"variable":"TOOL_SHOP_TIMEOUT_M","meant":"TOOL_SHOP_TIMEOUT_MS"')]);
});

test('a package that is not there stops the start; Bun does not fetch it, because bunfig.toml says so', async () => {
  const folder = folderWith({
    'tools/a.ts': `import isNumber from 'is-number';\n${tool('a', 'String(isNumber(1))')}`,
    'bunfig.toml': readFileSync(join(ROOT, 'bunfig.toml'), 'utf8'),
  });
  const { stderr } = await runToExit({ runtime: 'bun', folder });
  expect(stderr).toMatch(/^mcp-key-server: tools\/a\.ts: Cannot find package 'is-number'.*; correct it.*\n$/);
});

test('a scope that KEY_SCOPES does not have stops the start, with the file that needs it', async () => {
  const { stderr } = await runToExit({
    runtime: 'bun',
    folder: folderWith({ 'tools/list-orders.ts': EXAMPLE }),
    env: { KEY_SCOPES: 'read write' },
  });
  expect(stderr).toBe(
    'mcp-key-server: tools/list-orders.ts: KEY_SCOPES: expected "read:orders" in it, because list_orders needs it, got "read write"\n',
  );
});

test('a name that two files use, and a page that two files bring, stop the start', async () => {
  const page =
    "export const resources = [{ uri: 'ui://x', name: '', title: '', description: '', mimeType: '', read: () => 0 }];";
  const names = folderWith({ 'tools/a.ts': tool('same'), 'tools/b.ts': tool('same') });
  expect((await runToExit({ runtime: 'bun', folder: names })).stderr).toBe(
    'mcp-key-server: tools/b.ts: expected another tool name, same is in tools/a.ts already\n',
  );
  const pages = folderWith({ 'tools/a.ts': tool('a') + page, 'tools/b.ts': tool('b') + page });
  expect((await runToExit({ runtime: 'bun', folder: pages })).stderr).toBe(
    'mcp-key-server: tools/b.ts: expected another uri of a resource, ui://x is in tools/a.ts already\n',
  );
});

describe('TOOLS_DIR', () => {
  const expected = 'TOOLS_DIR: expected a folder that can be read, with the tools of your own';

  test.each([
    ['is missing', 'nowhere', 'ENOENT'],
    ['is a file', 'tools/a.ts', 'ENOTDIR'],
  ])('stops the start if it %s', async (_, name, reason) => {
    const toolsDir = join(folderWith({ 'tools/a.ts': tool('a') }), name);
    expect(await failingStart({ TOOLS_DIR: toolsDir })).toMatchObject({
      code: 1,
      stderr: `mcp-key-server: ${expected}, got "${toolsDir}" (${reason})\n`,
    });
  });

  test('stops the start if it may not be read', async () => {
    const folder = temporaryFolder();
    chmodSync(folder, 0);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) process.seteuid?.(65534);
    const { stderr } = await failingStart({ TOOLS_DIR: folder }).finally(() => {
      if (isRoot) process.seteuid?.(0);
    });
    expect(stderr).toBe(`mcp-key-server: ${expected}, got "${folder}" (EACCES)\n`);
  });

  test.each(
    rows(
      [
        ['bun', undefined],
        ['deno', withPackages()],
      ] as const,
      1,
    ),
  )('on %s names another folder, also with packages of its own; ./tools is then not read', async (runtime, command) => {
    const own = fill(diskFolder(), {
      'a.mjs': tool('packaged', 'greet()', "import greet from 'greeting';").replace(' as const', ''),
      'node_modules/greeting/package.json': '{ "name": "greeting", "main": "index.js", "type": "module" }',
      'node_modules/greeting/index.js': "export default () => 'from a package';",
    });
    const env = { TOOLS_DIR: own, JWT_SECRET: TEST_SECRET };
    const folder = fill(diskFolder(), { 'tools/b.ts': tool('other') });
    await using server = await startServer({ runtime, folder, env, ...(command && { command }) });
    expect(await namesOf(server)).toEqual(['packaged']);
    const { body } = await callOver(server.url, 'packaged');
    expect(body.content[0].text).toBe('from a package');
  });
});

test('files are read by name, but hidden ones and those for sharing; one may make several tools, and pages', async () => {
  const shared = "import { text } from './_shared.ts';";
  const page = { uri: 'ui://widget/own.html', name: 'own', title: 'Own', description: 'Own.', mimeType: 'text/html' };
  await using server = await start('bun', {
    'tools/b.js': tool('from_js').replace(' as const', ''),
    'tools/a.ts': `${tool('second', 'text', shared)}
const one = defineTool(() => ok({}), { ...{ title: '', description: '', widget: '${page.uri}', annotations: {} as never },
  name: 'first', input: v.strictObject({}), run: () => ok({ content: [] }) });
export const several = 1;`
      .replace('export default () =>\n', 'const two =\n')
      .concat('export default () => [one, two];\n'),
    'tools/_shared.ts': "export const text = 'shared';",
    'tools/a.test.ts': "throw new Error('a test is not a tool');",
    'tools/._b.js': 'what macOS keeps beside a file on other disks',
    'tools/.#a.ts': 'somebody has a.ts open',
    'tools/notes.md': 'no tool',
    'tools/deeper/c.ts': "throw new Error('not directly in the folder');",
    'tools/page.ts': `export default () => [];\nexport const resources = [{ ...${JSON.stringify(page)}, read: () => ({ text: '<p>' }) }];`,
  });
  expect(await namesOf(server)).toEqual(['first', 'second', 'from_js']);
  expect((await callOver(server.url, 'second')).body.content[0].text).toBe('shared');
  const read = { jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: page.uri } };
  expect((await post(server, read)).body.result.contents).toEqual([
    { uri: page.uri, mimeType: 'text/html', text: '<p>' },
  ]);
});
