// /mcp of 2026-07-28, where each request is self-contained, and headers repeat parts of it.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { call, MODERN, modern, post, postModern, request } from '../support/mcp.ts';
import { sharedApp } from '../support/test-app.ts';
import { anyone, facts, noInput } from '../support/tools.ts';

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

const query = defineTool(anyone, {
  ...facts('query'),
  input: v.strictObject({
    region: v.optional(v.pipe(v.string(), v.metadata({ 'x-mcp-header': 'Region' }))),
    limit: v.optional(v.pipe(v.number(), v.integer(), v.metadata({ 'x-mcp-header': 'Limit' }))),
    dry: v.optional(v.pipe(v.boolean(), v.metadata({ 'x-mcp-header': 'Dry' }))),
    free: v.optional(v.string()),
  }),
  run: () => ok({ content: [] }),
});

const PAGES = { elicitation: { url: {} } };
const FORMS = { elicitation: { form: {} } };
const NO_MODE = { elicitation: {} };
const SAMPLING = { sampling: {} };
/** What a tool requires of clients, what one declares, and what of that it lacks. */
const NEEDS: readonly [what: string, required: object, declared: object, missing: object | null][] = [
  ['two, of one that has one', { ...SAMPLING, ...FORMS }, NO_MODE, SAMPLING],
  ['two, of one that has both', { ...SAMPLING, ...FORMS }, { ...NO_MODE, ...SAMPLING }, null],
  ['pages, of a client that shows forms', PAGES, NO_MODE, PAGES],
  ['pages, of one that shows both', PAGES, { elicitation: { form: {}, url: {} } }, null],
  ['forms, of one that shows pages', NO_MODE, PAGES, FORMS],
  ['forms, of one that names no mode', FORMS, NO_MODE, null],
  [
    'an extension, of one with another',
    { extensions: { 'a/x': {} } },
    { extensions: { 'a/y': {} } },
    { extensions: { 'a/x': {} } },
  ],
  ['an extension, of one with it', { extensions: { 'a/x': {} } }, { extensions: { 'a/x': { level: 1 } } }, null],
  ['an extension with settings', { extensions: { 'a/x': { b: {} } } }, { extensions: { 'a/x': { c: 1 } } }, null],
  ['a name that every object has', { toString: {} }, {}, { toString: {} }],
  ['tools of sampling', { sampling: { tools: {} } }, SAMPLING, { sampling: { tools: {} } }],
  ['a flag', { roots: { listChanged: true } }, { roots: { listChanged: false } }, { roots: { listChanged: true } }],
];

const needy = NEEDS.map(([what, required]) =>
  defineTool(anyone, {
    ...noInput(what.replaceAll(/\W+/g, '_')),
    requiresClient: required as Record<string, object>,
    run: (_input, { clientCapabilities }) =>
      ok({ content: [{ type: 'text', text: Object.keys(clientCapabilities).join() }] }),
  }),
);

const app = await sharedApp();
/** With these tools, in place of the server's. */
const own = await sharedApp({ tools: () => [query, ...needy] });

describe('2026-07-28: results', () => {
  test('server/discover says what the server offers', async () => {
    const { status, body } = await postModern(app, 'server/discover', { cursor: 'is for lists' });
    expect(status).toBe(200);
    expect(body.result).toMatchObject({
      resultType: 'complete',
      supportedVersions: [MODERN],
      capabilities: { tools: {}, resources: {}, extensions: { 'io.modelcontextprotocol/ui': {} } },
      ttlMs: 3_600_000,
      cacheScope: 'public',
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'mcp-key-server', version: '1.0.0' } },
    });
  });

  test.each(['tools/list', 'resources/list', 'resources/templates/list'])('%s may be cached', async (method) => {
    const { result } = (await postModern(app, method)).body;
    expect(result).toMatchObject({ resultType: 'complete', ttlMs: 3_600_000, cacheScope: 'public' });
    expect(result._meta['io.modelcontextprotocol/serverInfo'].name).toBe('mcp-key-server');
  });

  test('tools/call may not, and carries the same content as before; a denial is in-band', async () => {
    const { key } = await app.createKey('alice');
    const { body } = await postModern(app, 'tools/call', { name: 'get_data' }, { headers: { 'x-api-key': key } });
    const { structuredContent, content, ...rest } = body.result;
    expect(structuredContent.owner).toBe('alice');
    expect(JSON.parse(content[0].text)).toEqual(structuredContent);
    expect(Object.keys(rest).sort()).toEqual(['_meta', 'resultType']);
    const denied = await postModern(app, 'tools/call', { name: 'get_data' });
    expect([denied.status, denied.body.result]).toMatchObject([200, { resultType: 'complete', isError: true }]);
  });

  test('a notification is accepted', async () => {
    const notification = { jsonrpc: '2.0', method: 'notifications/x' };
    expect((await post(app, notification, { 'mcp-protocol-version': MODERN })).status).toBe(202);
  });
});

describe('2026-07-28: what is wrong with the envelope is 400/-32602', () => {
  const { headers } = modern('tools/list');
  const whole = { [CAPABILITIES]: {}, [VERSION]: MODERN };

  test.each([
    ['no capabilities', { _meta: { [VERSION]: MODERN } }],
    ['capabilities that are no object', { _meta: { ...whole, [CAPABILITIES]: [] } }],
    ['capabilities null', { _meta: { ...whole, [CAPABILITIES]: null } }],
    ['a version that is no string', { _meta: { ...whole, [VERSION]: 20260728 } }],
    ['a version null', { _meta: { ...whole, [VERSION]: null } }],
    ['no _meta', {}],
    ['no version in it', { _meta: { [CAPABILITIES]: {} } }],
    ['a _meta of a wrong type', { _meta: [] }],
    ['a _meta null', { _meta: null }],
  ])('%s', async (_what, params) => {
    const { status, body } = await post(app, request('tools/list', params), headers);
    expect([status, body.error.code, body.id]).toEqual([400, -32602, 1]);
  });
});

describe('2026-07-28: headers that do not repeat the body are 400/-32020', () => {
  const without = (name: string) => (headers: Record<string, string>) => {
    const { [name]: _, ...rest } = headers;
    return rest;
  };
  test.each<[string, string, Record<string, unknown>, (headers: Record<string, string>) => Record<string, string>]>([
    ['no version', 'tools/list', {}, without('mcp-protocol-version')],
    ['no method', 'tools/list', {}, without('mcp-method')],
    ['no name', 'tools/call', { name: 'get_data' }, without('mcp-name')],
    ['another version', 'tools/list', {}, (headers) => ({ ...headers, 'mcp-protocol-version': '2025-11-25' })],
    ['two versions', 'tools/list', {}, (headers) => ({ ...headers, 'mcp-protocol-version': `${MODERN}, ${MODERN}` })],
    ['another method', 'tools/list', {}, (headers) => ({ ...headers, 'mcp-method': 'tools/call' })],
    ['a method in another case', 'tools/list', {}, (headers) => ({ ...headers, 'mcp-method': 'Tools/List' })],
    ['no name in the body', 'tools/call', {}, (headers) => ({ ...headers, 'mcp-name': 'get_data' })],
    ['no name anywhere', 'tools/call', {}, without('mcp-name')],
    ['a name of another type', 'tools/call', { name: 7 }, (headers) => ({ ...headers, 'mcp-name': '7' })],
    ['a uri of another type', 'resources/read', { uri: null }, (headers) => ({ ...headers, 'mcp-name': 'null' })],
    ['another name', 'tools/call', { name: 'get_data' }, (headers) => ({ ...headers, 'mcp-name': 'list_api_keys' })],
    ['another uri', 'resources/read', { uri: 'ui://a' }, (headers) => ({ ...headers, 'mcp-name': 'ui://b' })],
    ['bad base64', 'tools/call', { name: 'a' }, (headers) => ({ ...headers, 'mcp-name': '=?base64?YQ?=' })],
    [
      'base64 of another name',
      'tools/call',
      { name: 'a' },
      (headers) => ({ ...headers, 'mcp-name': '=?base64?Yg==?=' }),
    ],
    [
      'base64 that is not UTF-8',
      'tools/call',
      { name: 'a' },
      (headers) => ({ ...headers, 'mcp-name': '=?base64?/w==?=' }),
    ],
  ])('%s', async (_what, method, params, change) => {
    const { body: message, headers } = modern(method, params);
    const { status, body } = await post(app, message, change(headers));
    expect([status, body.error.code, body.id]).toEqual([400, -32020, 1]);
  });

  test('a name in base64 is the name', async () => {
    const { key } = await app.createKey('alice');
    const headers = { 'mcp-name': `=?base64?${btoa('get_data')}?=`, 'x-api-key': key };
    const { body } = await postModern(app, 'tools/call', { name: 'get_data' }, { headers });
    expect(body.result.structuredContent.owner).toBe('alice');
  });

  test('a wrong version header comes before an unsupported version', async () => {
    const meta = { [VERSION]: '1900-01-01' };
    const mismatch = await postModern(app, 'tools/list', {}, { meta });
    expect(mismatch.body.error.code).toBe(-32020);
  });
});

describe('2026-07-28: versions, methods, tools', () => {
  test.each(['1900-01-01', '2025-11-25', '2099-01-01', 'draft'])(
    'version "%s" is 400/-32022 and says which',
    async (version) => {
      const { status, body } = await postModern(
        app,
        'tools/list',
        {},
        { meta: { [VERSION]: version }, headers: { 'mcp-protocol-version': version } },
      );
      expect([status, body.error.code]).toEqual([400, -32022]);
      expect(body.error.data).toEqual({ supported: [MODERN], requested: version });
    },
  );

  test('a future version in the header alone, or in _meta alone, is 400/-32022 and says which are supported', async () => {
    const version = '2099-01-01';
    const inHeader = { 'mcp-protocol-version': version };
    const inMeta = { _meta: { [VERSION]: version } };
    const refused = [
      await post(app, request('tools/list'), inHeader),
      await post(app, { jsonrpc: '2.0', method: 'notifications/x' }, inHeader),
      await post(app, [request('ping')], inHeader),
      await post(app, request('tools/list', inMeta), {}),
      await post(app, request('tools/call', { name: 'get_data', ...inMeta }), inHeader),
    ];
    for (const { status, body } of refused) {
      expect([status, body.error.code]).toEqual([400, -32022]);
      expect(body.error.data).toEqual({ supported: [MODERN], requested: version });
    }
  });

  test.each([
    'initialize',
    'ping',
    'logging/setLevel',
    'resources/subscribe',
    'resources/unsubscribe',
    'subscriptions/listen',
    'constructor',
  ])('%s is 404/-32601', async (method) => {
    const { status, body } = await postModern(app, method);
    expect([status, body.error.code, body.id]).toEqual([404, -32601, 1]);
  });

  test('an initialize whose claim is not a version is an older client', async () => {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, _meta: { [VERSION]: 5 } };
    const { status, body } = await post(app, request('initialize', params));
    expect([status, body.result.protocolVersion]).toEqual([200, '2025-11-25']);
  });

  test('an unknown tool and a missing resource are -32602 in a 200', async () => {
    const tool = await postModern(app, 'tools/call', { name: 'nope' });
    expect([tool.status, tool.body.error.code]).toEqual([200, -32602]);
    const resource = await postModern(app, 'resources/read', { uri: 'ui://nope' });
    expect([resource.status, resource.body.error.code]).toEqual([200, -32602]);
    expect(resource.body.error.data).toEqual({ uri: 'ui://nope' });
  });

  test.each(NEEDS)('capabilities are compared to the depth: %s', async (what, _required, declared, missing) => {
    const meta = { [CAPABILITIES]: declared };
    const { status, body } = await postModern(own, 'tools/call', { name: what.replaceAll(/\W+/g, '_') }, { meta });
    expect(status).toBe(missing === null ? 200 : 400);
    if (missing === null) expect(body.result.content[0].text).toBe(Object.keys(declared).join());
    else expect(body.error).toMatchObject({ code: -32021, data: { requiredCapabilities: missing } });
  });
});

describe('2026-07-28: parameters that clients repeat in headers', () => {
  const queried = (args: object, headers: Record<string, string>) =>
    postModern(own, 'tools/call', { name: 'query', arguments: args }, { headers });

  test.each<[object, Record<string, string>]>([
    [{}, {}],
    [{ free: 'x' }, {}],
    [{ region: 'eu' }, { 'mcp-param-region': 'eu' }],
    [{ region: 'zürich' }, { 'mcp-param-region': '=?base64?esO8cmljaA==?=' }],
    [{ region: '' }, { 'mcp-param-region': '' }],
    [{ region: '=?base64?ZXU=?=' }, { 'mcp-param-region': `=?base64?${btoa('=?base64?ZXU=?=')}?=` }],
    [{ limit: 42 }, { 'mcp-param-limit': '42.0' }],
    [{ limit: -42 }, { 'mcp-param-limit': '=?base64?LTQy?=' }],
    [{ dry: true }, { 'mcp-param-dry': 'true' }],
  ])('%j with %j is right', async (args, headers) => {
    const { status, body } = await queried(args, headers);
    expect([status, body.result?.isError]).toEqual([200, undefined]);
  });

  test.each<[object, Record<string, string>]>([
    [{ region: 'eu' }, {}],
    [{ region: 'eu' }, { 'mcp-param-region': 'us' }],
    [{ region: 'eu' }, { 'mcp-param-region': 'EU' }],
    [{ region: '=?base64?ZXU=?=' }, { 'mcp-param-region': '=?base64?ZXU=?=' }],
    [{}, { 'mcp-param-region': 'eu' }],
    [{ region: ['eu'] }, { 'mcp-param-region': 'eu' }],
    [{ limit: 42 }, { 'mcp-param-limit': '43' }],
    [{ limit: 42 }, { 'mcp-param-limit': '0x2a' }],
    [{ limit: 0 }, { 'mcp-param-limit': ' ' }],
    [{ limit: 0 }, { 'mcp-param-limit': '=?base64??=' }],
    [{ limit: 0 }, { 'mcp-param-limit': '=?base64?not base64?=' }],
    [{ limit: 0 }, { 'mcp-param-limit': 'é' }],
    [{ dry: true }, { 'mcp-param-dry': 'false' }],
  ])('%j with %j is a mismatch', async (args, headers) => {
    const { status, body } = await queried(args, headers);
    expect([status, body.error.code]).toEqual([400, -32020]);
  });

  test('older revisions know nothing of them', async () => {
    const { body } = await post(own, call('query', { region: 'eu' }));
    expect(body.result.isError).toBeUndefined();
  });

  test('the mark is in the listed schema', async () => {
    const { body } = await postModern(own, 'tools/list');
    const listed = body.result.tools.find(({ name }: { name: string }) => name === 'query');
    expect(listed.inputSchema.properties.limit['x-mcp-header']).toBe('Limit');
  });
});
