// GET /openapi.json describes /tools/* with the schemas the tools validate with.

import { expect, test } from 'bun:test';
import * as v from 'valibot';
import { type Call, defineTool, type Guard, ok, sequence } from '../../src/start/package/index.ts';
import { post, request } from '../support/mcp.ts';
import { bearer, createTestApp, readResponse, sharedApp, type TestApp } from '../support/test-app.ts';
import { facts, noInput } from '../support/tools.ts';

const app = await sharedApp();
const document = (await readResponse(await fetch(`${app.url}/openapi.json`))).body;

test('it is OpenAPI 3.1 of this server', () => {
  expect(document).toMatchObject({
    openapi: '3.1.0',
    info: { title: 'mcp-key-server', version: '1.0.0' },
    servers: [{ url: app.url }],
  });
});

test('every tool is there, with its credential, and responds at its path', async () => {
  const security = Object.fromEntries(
    Object.entries(document.paths).map(([path, item]) => [
      path,
      (item as { post: { security: object[] } }).post.security.flatMap((scheme) => Object.keys(scheme)),
    ]),
  );
  const expected = {
    '/tools/create_api_key': ['userJwt'],
    '/tools/list_api_keys': ['userJwt'],
    '/tools/revoke_api_key': ['userJwt'],
    '/tools/delete_api_key': ['userJwt'],
    '/tools/get_data': ['apiKeyHeader', 'apiKeyBearer'],
  };
  expect(security).toMatchObject(expected);
  for (const path of Object.keys(expected)) {
    expect((await fetch(app.url + path, { method: 'POST' })).status).toBe(401);
  }
});

test('what a recursive schema refers to is in the document', async () => {
  const tree: v.GenericSchema = v.strictObject({ name: v.string(), children: v.array(v.lazy(() => tree)) });
  const schemas = { input: v.strictObject({ tree }), output: v.strictObject({ forest: v.array(tree) }) };
  await using own = await createTestApp({
    tools: () => [defineTool(() => ok({}), { ...facts('plant'), ...schemas, run: () => ok({ forest: [] }) })],
  });
  const text = await (await fetch(`${own.url}/openapi.json`)).text();
  const whole = JSON.parse(text);
  const refs = [...text.matchAll(/"\$ref":"#\/([^"]*)"/g)].map(([, pointer = '']) => pointer);
  expect(refs.filter((pointer) => pointer.includes('$defs')).length).toBeGreaterThan(2);
  for (const pointer of refs) {
    const steps = pointer.split('/').map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
    expect({ pointer, found: steps.reduce((part, step) => part?.[step], whole) }).toEqual({
      pointer,
      found: expect.objectContaining({ type: 'object' }),
    });
  }
});

interface Described {
  readonly post: Record<'requestBody', Content> & { readonly responses: Record<'200', Content> };
}
interface Content {
  readonly content: { readonly 'application/json': { readonly schema: object } };
}

// biome-ignore lint/suspicious/noExplicitAny: tests read results of any shape
const toolsOf = async (own: TestApp): Promise<any[]> =>
  (await post(own, { jsonrpc: '2.0', id: 1, method: 'tools/list' })).body.result.tools;

/** The words of JSON Schema that every host takes, those of Gemini too: one that it doesn't know costs it all tools. */
const WORDS = new Set([
  ...['type', 'description', 'default', 'enum', 'anyOf', 'properties', 'required', 'additionalProperties', 'items'],
  ...['minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'minItems', 'maxItems', 'maxProperties'],
]);

/** Returns the words of a schema that are none of those, and an enum that isn't of texts. */
function otherWordsIn(schema: unknown): readonly string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([word, value]) => {
    if (!WORDS.has(word)) return [word];
    if (word === 'enum') return value.every((one: unknown) => typeof one === 'string') ? [] : ['enum of other values'];
    if (word === 'properties') return Object.values(value).flatMap(otherWordsIn);
    if (word === 'anyOf') return value.flatMap(otherWordsIn);
    return word === 'items' || word === 'additionalProperties' ? otherWordsIn(value) : [];
  });
}

test('schemas have only words that every host takes', async () => {
  await using own = await createTestApp({ env: { ADMIN_CLAIM: 'roles=keys-admin', KEY_SCOPES: 'read write' } });
  const listed = await toolsOf(own);
  expect(listed.length).toBeGreaterThanOrEqual(7);
  for (const { name, inputSchema, outputSchema } of listed)
    expect([name, otherWordsIn(inputSchema), otherWordsIn(outputSchema)]).toEqual([name, [], []]);
  const { paths, components } = (await readResponse(await fetch(`${own.url}/openapi.json`))).body;
  expect(otherWordsIn(components.schemas.Problem)).toEqual([]);
  for (const [path, { post: operation }] of Object.entries<Described>(paths)) {
    const { requestBody, responses } = operation;
    const schemas = [requestBody, responses['200']].map(({ content }) => content['application/json'].schema);
    expect([path, ...schemas.flatMap(otherWordsIn)]).toEqual([path]);
  }
});

test('what only some hosts know of a tool of one’s own is said in other words, which accept a little more', async () => {
  const input = v.strictObject({
    part: v.pipe(v.number(), v.gtValue(0), v.ltValue(1)),
    kind: v.literal('a'),
    count: v.literal(2),
    sure: v.literal(true),
    labels: v.record(v.pipe(v.string(), v.regex(/^[a-z]+$/)), v.string()),
  });
  await using own = await createTestApp({
    tools: () => [defineTool(() => ok({}), { ...facts('odd'), input, output: v.strictObject({}), run: () => ok({}) })],
  });
  const [{ inputSchema }] = await toolsOf(own);
  expect(inputSchema.properties).toEqual({
    part: { type: 'number', minimum: 0, maximum: 1 },
    kind: { type: 'string', enum: ['a'] },
    count: { type: 'number' },
    sure: { type: 'boolean' },
    labels: { type: 'object', additionalProperties: { type: 'string' } },
  });
  expect((await own.call('odd', { part: 0, kind: 'a', count: 2, sure: true, labels: {} })).status).toBe(400);
});

test('the bounds of create_api_key stand in its schema', () => {
  const { schema } = document.paths['/tools/create_api_key'].post.requestBody.content['application/json'];
  expect(schema).toMatchObject({
    type: 'object',
    required: ['name', 'scopes'],
    additionalProperties: false,
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 200 },
      scopes: { type: 'array', maxItems: 100, items: { type: 'string', pattern: expect.any(String) } },
      expiresInDays: { type: 'number', minimum: 0, maximum: 36_500 },
    },
  });
  const { schema: keyId } = document.paths['/tools/revoke_api_key'].post.requestBody.content['application/json'];
  expect(keyId).toMatchObject({ properties: { keyId: { type: 'string', maxLength: 200 } }, required: ['keyId'] });
});

test('a new key is there in every response that shows one, unless a widget may have it', async () => {
  await using widgets = await createTestApp({ env: { KEY_REVEAL: 'widget' } });
  const withWidgets = (await readResponse(await fetch(`${widgets.url}/openapi.json`))).body;
  for (const path of ['/tools/create_api_key', '/tools/rotate_api_key']) {
    const required = ({ paths }: typeof document): string[] =>
      paths[path].post.responses[200].content['application/json'].schema.required;
    expect(required(document)).toContain('key');
    expect(required(document).filter((name) => !required(withWidgets).includes(name))).toEqual(['key']);
  }
});

test('times are integers', () => {
  const output = (tool: string) =>
    document.paths[`/tools/${tool}`].post.responses[200].content['application/json'].schema.properties;
  const orNull = { anyOf: [{ type: 'integer' }, { type: 'null' }] };
  expect(output('create_api_key')).toMatchObject({ expiresAt: orNull });
  expect(output('list_api_keys').keys.items.properties).toMatchObject({
    createdAt: { type: 'integer' },
    expiresAt: orNull,
    lastUsedAt: { type: 'integer' },
  });
});

test('what a tool asks for is what its guards ask for, in whatever order they are composed', async () => {
  const tool = (name: string, guard: Guard<Call>) =>
    defineTool(guard, { ...noInput(name), output: v.strictObject({}), run: () => ok({}) });
  await using own = await createTestApp({
    tools: ({ guards }) => {
      const limit = guards.rateLimit({ requests: 5, window: '1m', key: () => undefined });
      return [
        tool('anyone', limit),
        tool('person', sequence(limit, guards.userJwt)),
        tool('program', sequence(guards.apiKey, guards.scopes('read'), limit)),
      ];
    },
  });
  const { paths } = (await readResponse(await fetch(`${own.url}/openapi.json`))).body;
  const security = (name: string) => paths[`/tools/${name}`].post.security;
  expect(['anyone', 'person', 'program'].map(security)).toEqual([
    [],
    [{ userJwt: [] }],
    [{ apiKeyHeader: ['read'] }, { apiKeyBearer: ['read'] }],
  ]);
  const described = (name: string) => paths[`/tools/${name}`].post.description;
  expect(['anyone', 'person', 'program'].map(described)).toEqual([
    'anyone At most 5 calls in 1m.',
    'person Needs a user token. At most 5 calls in 1m.',
    'program Needs an API key with the scope `read` (X-API-Key, or Authorization: Bearer). At most 5 calls in 1m.',
  ]);
  const { result } = (await post(own, request('tools/list'))).body;
  expect(result.tools.map(({ description }: { description: string }) => description)).toEqual(
    ['anyone', 'person', 'program'].map(described),
  );
});

/** The members of a problem that its schema does not have. */
const undescribed = (problem: object) =>
  Object.keys(problem).filter((name) => !(name in document.components.schemas.Problem.properties));

test('what a problem says beside its code is described: whose limit it is, and until when a rotation is under way', async () => {
  const headers = await bearer(app, 'alice');
  const { key } = await app.createKey('zoe');
  await app.keys('owner', 'zoe', '--limit', '1/1h');
  app.clock.advance(1000);
  await app.useKey(key);
  const limited = await app.useKey(key);
  expect(limited).toMatchObject({ status: 429, body: { of: 'owner' } });
  const { id } = await app.createKey('alice', { scopes: ['read'] });
  const rotate = () => app.call('rotate_api_key', { keyId: id }, headers);
  await app.useKey((await rotate()).body.key);
  const refused = await rotate();
  expect(refused).toMatchObject({ status: 409, body: { previousUntil: expect.any(Number) } });
  for (const { body } of [limited, refused]) expect(undescribed(body)).toEqual([]);
});

test('a scope and a rate limit are a 403 and a 429 in the responses, and nothing else is', async () => {
  const { responses } = document.paths['/tools/get_data'].post;
  expect(Object.keys(responses)).toEqual(['200', '403', '429', 'default']);
  expect(responses[403].description).toBe('The key lacks a scope: read');
  expect(responses[429].description).toBe('More than 1000 calls in 1h');
  expect(Object.keys(responses[429].headers)).toEqual(['Retry-After', 'RateLimit-Policy', 'RateLimit']);
  const { key } = await app.createKey('alice', { scopes: [] });
  const refused = (await app.useKey(key)).body;
  expect(undescribed(refused)).toEqual([]);
  expect(Object.keys(document.paths['/tools/list_api_keys'].post.responses)).toEqual(['200', '429', 'default']);
  await using unlimited = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '0' } });
  const { paths } = (await readResponse(await fetch(`${unlimited.url}/openapi.json`))).body;
  expect(Object.keys(paths['/tools/get_data'].post.responses)).toEqual(['200', '403', 'default']);
  expect(paths['/tools/get_data'].post.description).not.toContain('At most');
});

test('the description of revoke_api_key says that it works at once, and that the record stays', () => {
  const { description } = document.paths['/tools/revoke_api_key'].post;
  expect(description).toContain('stops working at once');
  expect(description).toContain('could be reactivated');
});

test('a body is required if a tool has required fields; refusals are described as problem+json', () => {
  const required = (tool: string) => document.paths[`/tools/${tool}`].post.requestBody.required;
  expect(['create_api_key', 'revoke_api_key', 'delete_api_key'].map(required)).toEqual([true, true, true]);
  expect(['list_api_keys', 'get_data'].map(required)).toEqual([false, false]);
  const refusal = document.paths['/tools/get_data'].post.responses.default.content['application/problem+json'];
  expect(refusal.schema).toEqual({ $ref: '#/components/schemas/Problem' });
  expect(document.components.schemas.Problem.required).toContain('code');
});
