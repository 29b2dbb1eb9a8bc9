// Tools of one's own, in a folder beside the server: they are found and called, and one that can't be used stops the
// start with one line.

import { describe, expect, test } from 'bun:test';
import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { exampleTool, ROOT, readDocument } from '../support/documents.ts';
import { rows } from '../support/everything.ts';
import { failingStart, failingStartOn } from '../support/failing-start.ts';
import { diskFolder, fill, folderWith, temporaryFolder } from '../support/folder.ts';
import { modern, post, request } from '../support/mcp.ts';
import { commandOf, type Runtime, runToExit, type ServerProcess, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { SERVER_TOOLS, saying, toolFile } from '../support/tools.ts';
import { transportOf } from '../support/transports.ts';
import { waitFor } from '../support/wait-for.ts';

const EXAMPLES = {
  'tools/list-orders.ts': readDocument('README.md').codeBlock('A tool of your own', 'ts'),
  'tools/close-order.ts': exampleTool('close-order.ts'),
  'tools/shop-hours.ts': exampleTool('shop-hours.ts'),
  'tools/plan-visit.ts': readDocument('src/tools/README.md').codeBlock('Prompts', 'ts'),
};

/** The same after `head`, responding with `text`, an expression. */
const tool = (name: string, text = "'hello'", head = '') => head + toolFile(name, saying(text));

const start = (runtime: Runtime, files: Readonly<Record<string, string>>, env: Readonly<Record<string, string>> = {}) =>
  startServer({ runtime, folder: fill(diskFolder(), files), env: { JWT_SECRET: TEST_SECRET, ...env } });

/** What a start that must fail says of these files: on Bun it fails in this process. */
async function failure(
  files: Readonly<Record<string, string>>,
  env: Record<string, string> = {},
  runtime: Runtime = 'bun',
) {
  const folder = fill(diskFolder(), files);
  const { TOOLS_DIR = 'tools', ...more } = env;
  const all = { ...more, TOOLS_DIR: join(folder, TOOLS_DIR) };
  const { code, stderr } = await failingStartOn(runtime, all);
  expect({ code, lines: stderr.match(/\n/g)?.length }).toEqual({ code: 1, lines: 1 });
  expect(stderr).toStartWith('mcp-key-server: ');
  return stderr.trim().slice('mcp-key-server: '.length).replaceAll(`${folder}/`, '');
}

/** The same for one file, tools/a.ts; the line begins with its name. */
async function expectFailure(text: string, expected: string | RegExp, runtime?: Runtime): Promise<void> {
  const said = await failure({ 'tools/a.ts': text }, {}, runtime);
  expect(said).toStartWith('tools/a.ts');
  if (typeof expected === 'string') expect(said).toBe(`tools/a.ts: ${expected}`);
  else expect(said).toMatch(expected);
}

/** Deno with the flag that lets it find packages beside the folder. */
const withPackages = () =>
  commandOf('deno').flatMap((word) => (word === 'run' ? [word, '--node-modules-dir=manual'] : [word]));

async function namesOf(server: ServerProcess): Promise<string[]> {
  const { body } = await post(server, request('tools/list'));
  const names: string[] = body.result.tools.map(({ name }: { name: string }) => name);
  return names.filter((name) => !SERVER_TOOLS.includes(name));
}

const THROWS_NO_DATABASE = "\nthrow new Error('no database\\nat all');";
const HINTS =
  'a: annotations: expected readOnlyHint, destructiveHint, idempotentHint, openWorldHint, each true or false, got object';
const LEFT_OUT = 'correct it, or rename it to tools/_a.ts to leave it out';

describe.each(rows(['bun', 'deno'] as const, 1))('on %s', (runtime) => {
  test('the examples of the documents work, without node_modules, with settings from the environment', async () => {
    const settings = { TOOL_SHOP_URL: 'http://127.0.0.1:1/', TOOL_SHOP_TIMEOUT_M: '5', TOOL_OTHER: 'x' };
    await using server = await start(runtime, EXAMPLES, settings);
    const create = { name: 'n', scopes: ['read:orders'] };
    const { key } = (await callOver(server.url, 'create_api_key', create, await userHeaders('alice'))).body;
    const headers = { 'x-api-key': key };
    for (const transport of [0, 1, 3]) {
      const called = await transportOf(transport, server.url)('list_orders', { status: 'open' }, headers);
      expect(called).toMatchObject({ kind: 'ok', output: { owner: 'alice', orders: [{ id: 'order-1' }] } });
    }
    expect((await callOver(server.url, 'list_orders')).status).toBe(401);

    // It asks, and gets its answer with the next call.
    const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } };
    const round = async (params: object = {}) => {
      const order = { name: 'close_order', arguments: { orderId: '7' }, ...params };
      const { body, headers: mirrored } = modern('tools/call', order, capabilities);
      return (await post(server, body, { ...mirrored, ...headers })).body.result;
    };
    const { inputRequests, requestState } = await round();
    expect(inputRequests.closing.params.message).toBe('Close the order 7?');
    const closing = { action: 'accept', content: { reason: 'sent' } };
    const { structuredContent } = await round({ inputResponses: { closing }, requestState });
    expect(structuredContent).toEqual({ closed: true });
    expect((await callOver(server.url, 'close_order', { orderId: '7' }, headers)).body.closed).toBe(false);

    const ask = async (method: string, params: object = {}) =>
      (await post(server, request(method, params), headers)).body.result;
    expect((await ask('prompts/list')).prompts).toMatchObject([{ name: 'plan_visit', arguments: [{ name: 'city' }] }]);
    const { messages } = await ask('prompts/get', { name: 'plan_visit', arguments: { city: 'Porto' } });
    expect(messages[0].content.text).toBe('Plan a visit to Porto.');
    const half = { ref: { type: 'ref/prompt', name: 'plan_visit' }, argument: { name: 'city', value: 'Par' } };
    expect((await ask('completion/complete', half)).completion.values).toEqual(['Paris', 'Parma']);

    const hours = await callOver(server.url, 'shop_hours', {}, headers);
    expect(hours.body).toMatchObject({ status: 502, code: 'shop_away' });
    if (runtime === 'deno') return; // it reads variables by name, and sees no other
    await waitFor(() => server.stdout().includes('"variable perhaps misspelt"'));
    expect(server.stdout().match(/"variable perhaps misspelt".*/g)).toEqual([
      expect.stringContaining('"variable":"TOOL_SHOP_TIMEOUT_M","meant":"TOOL_SHOP_TIMEOUT_MS"'),
    ]);
  });

  test('without its settings, or with wrong ones, an example does not start', async () => {
    const files = { 'tools/shop-hours.ts': EXAMPLES['tools/shop-hours.ts'] };
    for (const [env, said] of [
      [{}, 'TOOL_SHOP_URL: expected a value, but it is not set'],
      [{ TOOL_SHOP_URL: 'hunter2' }, 'TOOL_SHOP_URL: expected the URL of the shop'],
    ] as const) {
      expect(await failure(files, env, runtime)).toMatch(
        new RegExp(`^tools/shop-hours\\.ts:\\d+:\\d+: (.*: )?${said}$`),
      );
    }
  });

  test.each<[string, string, string | RegExp]>([
    [
      'without a default export',
      'export const tool = 1;',
      `expected a default export (deps: ToolDeps) => Tool or Tool[], or an export prompts or resources, got none; ${LEFT_OUT}`,
    ],
    ['that throws', THROWS_NO_DATABASE, new RegExp(`:2:\\d+: no database; ${LEFT_OUT}$`)],
    ['with an error of syntax', '\n\nexport default (  => 3;', /:3:\d+: .*; correct it, or rename it to tools\/_a\.ts/],
    [
      'with several errors of syntax',
      '\n\nlet a, a;\nlet b, b;',
      /:3:\d+: .*\ba\b.*; correct it, or rename it to tools\/_a\.ts/,
    ],
    ["with a name of the server's own", tool('whoami'), "expected another tool name, whoami is the server's own"],
  ])('a file %s stops the start with one line', (_, text, expected) => expectFailure(text, expected, runtime));

  test.each([
    ['with an error of syntax', '_b.ts', '\n\nexport default (  => 3;', /^tools\/a\.ts: tools\/_b\.ts:3:\d+: .*/],
    ['that throws', 'lib/b.ts', THROWS_NO_DATABASE, /^tools\/a\.ts: tools\/lib\/b\.ts:2:\d+: no database; /],
  ])('a file that imports one %s stops the start with one line, which names that one', async (_, other, text, said) => {
    const files = { 'tools/a.ts': `import './${other}';\nexport default () => [];\n`, [`tools/${other}`]: text };
    expect(await failure(files, {}, runtime)).toMatch(said);
  });

  test.each([
    ['is loaded', '', `tools/a.ts: expected it to be loaded, but it ended the server; ${LEFT_OUT}`],
    [
      'makes its tools',
      'export default () => ',
      'tools: expected them to leave the server running, but one has ended it',
    ],
  ])('a file that ends the process as it %s stops the start with one line', async (_, before, said) => {
    const folder = fill(diskFolder(), { 'tools/a.ts': `${before}process.exit(0);` });
    expect(await runToExit({ runtime, folder })).toEqual({ code: 1, stdout: '', stderr: `mcp-key-server: ${said}\n` });
  });

  test('a place is in the file, however it is called and wherever it is', async () => {
    const text = (code: string) => `import { defineTool } from 'mcp-key-server';\n\nexport default () => ${code};`;
    for (const [code, place] of [
      ['[defineTool()]', ':3:\\d+'],
      ['[{}]', ''],
    ] as const) {
      const said = await failure({ 'my tools/tool.ts': text(code) }, { TOOLS_DIR: 'my tools' }, runtime);
      expect(said).toMatch(new RegExp(`^my tools/tool\\.ts${place}: (defineTool: )?expected .*$`));
    }
    const said = 'a: input: d: expected what JSON Schema can express, got v.date()';
    await expectFailure(taking('v.strictObject({ d: v.date() })'), said, runtime);
  });
});

const taking = (input: string) => tool('a').replace('v.strictObject({})', input);
const having = (field: string) => tool('a').replace("name: 'a',", `name: 'a', ${field},`);
const without = (field: RegExp) => tool('a').replace(field, '');
const exporting = (text: string) => `${tool('a')}export const ${text};`;
const guarded = (guard: string, head = '') =>
  tool('a', undefined, head).replace('() =>', '({ guards }) =>').replace('() => ok({})', guard);
const returning = (text: string) => `export default ({ guards }) => [${text}];`;
const inSequence = (...guards: readonly string[]) =>
  `import { sequence } from 'mcp-key-server';\n${returning(`sequence(${guards.join(', ')})`)}`;
const sequenced = (guard: string) => `import { defineTool, ok, sequence, v } from 'mcp-key-server';
export default ({ guards }) => defineTool(sequence(guards.apiKey, ${guard}), { name: 'a', title: '',
  description: '', input: v.strictObject({}), run: () => ok({ content: [] }) });`;
const prompt = (fields: string, guard = '() => ok({}), ') => `import { definePrompt, ok, v } from 'mcp-key-server';
export const prompts = () => definePrompt(${guard}{ name: 'p', title: '', description: '', ${fields} run: () => ok({ messages: [] }) });`;

const NO_TOOL = 'expected its default export to return what defineTool makes, or an array of that, got';
const NO_NAME = 'defineTool: name: expected 1-128 letters, digits, "_", "-" or ".", got';
const NO_GUARD = (of: string) =>
  `${of}: expected a guard, and then the definition: ${of}(guards.apiKey, or () => ok({}) to let everybody call it, { … })`;

test.each<[string, string, string | RegExp]>([
  [
    'a default export that is no function',
    'export default { name: 1 };',
    'expected a default export (deps: ToolDeps) => Tool or Tool[], but it is of type object',
  ],
  ['a file that throws nothing at all', 'throw null;', `null; ${LEFT_OUT}`],
  ['a file that throws an object whose message is no text', 'throw { message: 5 };', `5; ${LEFT_OUT}`],
  ['no tool', 'export default () => ({});', `${NO_TOOL} object`],
  ['nothing, as a function whose return is forgotten', 'export default () => {};', `${NO_TOOL} undefined`],
  ['a promise of a tool', 'export default async () => [];', `${NO_TOOL} a promise`],
  [
    'a name that the module does not have',
    "import { start } from 'mcp-key-server'; export default start;",
    /Export named 'start' not found in module 'mcp-key-server'/,
  ],

  ['a name that MCP does not allow', tool('a b'), new RegExp(`: ${NO_NAME} "a b"$`)],
  ['a name that is a path to another', tool('..'), new RegExp(`: ${NO_NAME.replaceAll('.', '\\.')} "\\.\\."$`)],
  ['a tool without a name', without(/name: 'a',/), `${NO_NAME} undefined`],
  ['a tool without a description', without(/description: 'A tool.',/), 'a: description: expected text, got undefined'],
  [
    'a tool without input',
    without(/input: .*,/),
    'a: input: expected a schema of valibot 1, like v.strictObject({}), got undefined',
  ],
  [
    'a tool whose description is misspelt, which is more than that it has none',
    tool('a').replace('description:', 'descripton:'),
    /^.*a: descripton: unknown field; the fields are name, title, description, /,
  ],
  ['a tool without a function', without(/run: .*,/), 'a: run: expected a function, got undefined'],
  ['hints that clients would refuse', tool('a').replace('readOnlyHint: true', "readOnlyHint: 'yes'"), HINTS],
  ['a misspelt hint', tool('a').replace('readOnlyHint: true', 'readonlyHint: true'), HINTS],
  [
    'capabilities that no client declares',
    having('requiresClient: { sampling: true }'),
    'a: requiresClient: expected capabilities, like { elicitation: {} }, got object',
  ],
  [
    'a widget that no page is',
    having("widget: 'ui://a'"),
    'expected the widget of a to be the uri of a resource, got "ui://a"',
  ],
  [
    'a misspelt option of a tool',
    having('sampel: {}'),
    'a: sampel: unknown field; the fields are name, title, description, timeoutMs, input, output, annotations, requiresClient, widget, sample, cost, run',
  ],

  [
    'a schema that clients cannot be told',
    taking('v.strictObject({ d: v.date() })'),
    'a: input: d: expected what JSON Schema can express, got v.date()',
  ],
  [
    'a field of a field that clients cannot be told',
    having('output: v.object({ o: v.object({ at: v.optional(v.date()) }) })'),
    'a: output: o.at: expected what JSON Schema can express, got v.date()',
  ],
  [
    'a field that is no schema',
    taking('v.strictObject({ o: v.object({ n: v.string }) })'),
    'a: input: n: expected a schema, like v.string(), got function',
  ],
  [
    'an input whose fields are missing',
    taking('v.strictObject()'),
    'a: input: expected fields, like v.object({}), got none',
  ],
  [
    'a choice of nothing, for which clients would refuse all tools',
    taking('v.strictObject({ n: v.optional(v.picklist([])) })'),
    'a: input: expected options of v.picklist(), got none',
  ],
  [
    'an output of no alternatives',
    having("output: v.object({ n: v.array(v.variant('kind', [])) })"),
    'a: output: expected options of v.variant(), got none',
  ],
  [
    'a pattern that fits every second time only',
    taking('v.strictObject({ n: v.pipe(v.string(), v.regex(/a/g)) })'),
    'a: input: expected a pattern without the flags g and y, which fails every second time, got /a/g',
  ],
  [
    'metadata of an output that would break the list of tools',
    having('output: v.object({ n: v.pipe(v.string(), v.metadata({ most: 5n })) })'),
    'a: output: expected metadata that JSON can express',
  ],
  [
    'metadata of an input that holds itself',
    taking('(() => { const m = {}; m.m = m; return v.object({ n: v.pipe(v.string(), v.metadata(m)) }); })()'),
    'a: input: expected metadata that JSON can express',
  ],
  [
    'a header that clients would not send',
    taking("v.strictObject({ n: v.pipe(v.number(), v.metadata({ 'x-mcp-header': 'N' })) })"),
    'a: x-mcp-header of n: expected a parameter that is text, an integer or a boolean, got "number"',
  ],
  [
    'an output whose type is not said',
    having('output: v.object({ o: v.object({ n: v.pipe(v.number(), v.transform(String)) }) })'),
    'a: output: o.n: expected the schema of its result at the end of a pipe with transform, like v.string()',
  ],
  [
    'an output that is parsed to a boolean, which is not said',
    having('output: v.object({ on: v.pipe(v.string(), v.parseBoolean()) })'),
    'a: output: on: expected the schema of its result at the end of a pipe with parse_boolean, like v.string()',
  ],
  [
    'an input with a check that is async, which would let anything pass',
    taking('v.object({ o: v.pipeAsync(v.string(), v.checkAsync(async () => false)) })'),
    'a: input: expected a schema that decides at once, got an async part; that belongs into run',
  ],
  [
    'a schema of valibot before 1',
    taking("{ kind: 'schema', type: 'object', entries: {}, _run: (dataset) => dataset }"),
    'a: input: expected a schema of valibot 1, like v.strictObject({}), got object',
  ],
  [
    'input that is no object',
    taking('v.string()'),
    'a: input: expected the schema of an object, got one of type string',
  ],
  [
    'output that is no object',
    having('output: v.array(v.string())'),
    'a: output: expected the schema of an object, got one of type array',
  ],
  [
    'a sample that is no output',
    having("output: v.object({ n: v.number() }), sample: { n: '1' }"),
    'a: the sample does not fit the output: n: Expected number',
  ],

  [
    'a function that throws',
    returning('guards.rateLimit({ requests: 1, window: "1x" })'),
    /:1:\d+: rate limit: window: expected a window like 30s, 5m, 1h or 1d, got "1x"$/,
  ],
  [
    'a misspelt option of a rate limit',
    returning('guards.rateLimit({ request: 1, window: "1m", key: () => "" })'),
    /:1:\d+: rate limit: request: unknown field; the fields are requests, window, key$/,
  ],
  [
    'a rate limit without a key',
    returning('guards.rateLimit({ requests: 1, window: "1m" })'),
    /:1:\d+: rate limit: key: expected a function that names the bucket of a call, got undefined$/,
  ],
  ['a mistyped guard', guarded('guards.apikey'), NO_GUARD('defineTool')],
  [
    'a mistyped guard in a sequence',
    inSequence('guards.apiKey', 'guards.scope'),
    /: sequence: expected a guard in place 2, got undefined$/,
  ],
  ...['scopes', 'rateLimit'].flatMap((name): [string, string, RegExp][] => [
    [
      `guards.${name} that is not called, in a sequence`,
      sequenced(`guards.${name}`),
      /:2:\d+: sequence: expected a guard in place 2, got one that is to be called first$/,
    ],
    [
      `guards.${name} that is not called`,
      guarded(`guards.${name}`),
      /: defineTool: expected a guard, and then the definition: /,
    ],
  ]),
  [
    'scopes before the key',
    inSequence("guards.scopes('read')", 'guards.apiKey'),
    /:2:\d+: sequence: expected the guard of scopes after that of the API key$/,
  ],
  [
    'scopes before the key, after a guard of its own',
    inSequence('() => {}', "guards.scopes('read')", 'guards.apiKey'),
    /:2:\d+: sequence: expected the guard of scopes after that of the API key$/,
  ],
  [
    'scopes without a key',
    guarded("guards.scopes('read')"),
    'a: expected guards.apiKey before guards.scopes: only keys have scopes',
  ],
  ['a sequence of no guards', inSequence(), /:2:\d+: sequence: expected guards, got none: everybody would pass$/],
  [
    'a guard of scopes that names none',
    returning('guards.scopes()'),
    /:1:\d+: scopes: expected one scope or more, got none: every key would pass$/,
  ],
  ...["'read data'", "''", "['read']", '5', 'undefined'].map((scope): [string, string, RegExp] => [
    `a scope that no key can have: ${scope}`,
    sequenced(`guards.scopes(${scope})`),
    /: a: guards\.scopes: expected scopes that a key can have, like "read", got .+$/,
  ]),
  [
    'a guard of admins alone',
    guarded('guards.admin'),
    'a: expected guards.userJwt before guards.admin: only people are admins',
  ],
  [
    'a guard of admins after that of keys',
    guarded('sequence(guards.apiKey, guards.admin)', "import { sequence } from 'mcp-key-server';"),
    'a: expected guards.userJwt before guards.admin: only people are admins',
  ],
  [
    'a guard of admins before that of users',
    inSequence('guards.admin', 'guards.userJwt'),
    /:2:\d+: sequence: expected the guard of admins after that of the user token$/,
  ],
  [
    'a sequence for two credentials, of which the second would take the place of the first',
    inSequence('guards.userJwt', 'guards.apiKey'),
    /:2:\d+: sequence: expected one guard that asks for a credential, got several$/,
  ],

  [
    'prompts that are no function',
    exporting('prompts = []'),
    'expected the export prompts to be a function (deps: ToolDeps) => Prompt or Prompt[]',
  ],
  [
    'prompts that are none',
    exporting("prompts = () => [{ name: 'p' }]"),
    'expected its export prompts to return what definePrompt makes, or an array of that, got object',
  ],
  [
    'prompts that are not returned',
    exporting('prompts = () => {}'),
    'expected its export prompts to return what definePrompt makes, or an array of that, got undefined',
  ],
  [
    'a prompt with an argument that is no string',
    prompt('arguments: v.strictObject({ count: v.number() }),'),
    /p: arguments: expected strings, got another type for "count"$/,
  ],
  [
    'a prompt with arguments that are no object',
    prompt('arguments: v.string(),'),
    /: p: arguments: expected the schema of an object, got one of type string$/,
  ],
  [
    'a prompt without arguments',
    prompt(''),
    'p: arguments: expected a schema of valibot 1, like v.strictObject({}), got undefined',
  ],
  ['a prompt without a guard', prompt('arguments: v.object({}),', ''), NO_GUARD('definePrompt')],
  [
    'a misspelt option of a prompt',
    prompt('arguments: v.object({}), completes: {},'),
    /: p: completes: unknown field; the fields are name, title, description, timeoutMs, arguments, run, complete$/,
  ],

  ['pages in no list', exporting('resources = {}'), 'expected the export resources to be an array'],
  ['a page that is no object', exporting('resources = [1]'), 'resources[0]: expected an object'],
  [
    'pages that are none',
    exporting("resources = [{ uri: 'ui://x' }]"),
    'resources[0]: name: expected text, got undefined',
  ],
  [
    'a page with a misspelt option',
    exporting("resources = [{ uri: 'a:b', mime: '' }]"),
    'resources[0]: mime: unknown field; the fields are uri, name, title, description, mimeType, meta, read',
  ],
  [
    'a page whose URI has no scheme',
    exporting("resources = [{ uri: 'own.html', name: '', title: '', description: '', mimeType: '', read() {} }]"),
    'resources[0]: uri: expected a URI like ui://widget/orders.html, got "own.html"',
  ],
  [
    'a page whose URI has a space',
    exporting("resources = [{ uri: 'ui://x/a b', name: '', title: '', description: '', mimeType: '', read() {} }]"),
    'resources[0]: uri: expected a URI like ui://widget/orders.html, got "ui://x/a b"',
  ],
  [
    'a page whose meta is none',
    exporting(
      "resources = [{ uri: 'ui://x', name: '', title: '', description: '', mimeType: '', read() {}, meta: 1 }]",
    ),
    'resources[0]: meta: expected an object that JSON can express, got 1',
  ],
  [
    'a page whose meta would break the list of pages',
    exporting(
      "resources = [{ uri: 'ui://x', name: '', title: '', description: '', mimeType: '', read() {}, meta: { n: 5n } }]",
    ),
    'resources[0]: meta: expected an object that JSON can express, got object',
  ],
])('%s stops the start with one line', (_, text, expected) => expectFailure(text, expected));

test('a package that is not there stops the start; Bun does not fetch it, because bunfig.toml says so', async () => {
  const folder = folderWith({
    'tools/a.ts': `import isNumber from 'is-number';\n${tool('a', 'String(isNumber(1))')}`,
    'bunfig.toml': readFileSync(join(ROOT, 'bunfig.toml'), 'utf8'),
  });
  const { stderr } = await runToExit({ runtime: 'bun', folder });
  expect(stderr).toMatch(/^mcp-key-server: tools\/a\.ts: Cannot find package 'is-number'.*; correct it.*\n$/);
});

test('a scope that KEY_SCOPES does not have stops the start, with the file that needs it', async () => {
  const files = { 'tools/list-orders.ts': EXAMPLES['tools/list-orders.ts'] };
  expect(await failure(files, { KEY_SCOPES: 'read write' })).toBe(
    'tools/list-orders.ts: KEY_SCOPES: expected "read:orders" in it, because list_orders needs it, got "read write"',
  );
});

test('a name that two files use, and a page that two files bring, stop the start', async () => {
  const page =
    "export const resources = [{ uri: 'ui://x', name: '', title: '', description: '', mimeType: '', read: () => 0 }];";
  expect(await failure({ 'tools/a.ts': tool('same'), 'tools/b.ts': tool('same') })).toBe(
    'tools/b.ts: expected another tool name, same is in tools/a.ts already',
  );
  expect(await failure({ 'tools/a.ts': tool('a') + page, 'tools/b.ts': tool('b') + page })).toBe(
    'tools/b.ts: expected another uri of a resource, ui://x is in tools/a.ts already',
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
      chmodSync(folder, 0o700); // otherwise nobody but root can remove it
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
    'tools/page.ts': `export const resources = [{ ...${JSON.stringify(page)}, read: () => ({ text: '<p>' }) }];`,
  });
  expect(await namesOf(server)).toEqual(['first', 'second', 'from_js']);
  expect((await callOver(server.url, 'second')).body.content[0].text).toBe('shared');
  const read = { jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: page.uri } };
  expect((await post(server, read)).body.result.contents).toEqual([
    { uri: page.uri, mimeType: 'text/html', text: '<p>' },
  ]);
});
