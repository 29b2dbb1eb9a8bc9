// What a caller sees: tools/list and prompts/list show what its credentials can call, over every transport and revision,
// and looking at a key for that leaves no trace.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { definePrompt, defineTool, ok, sequence, type ToolDeps } from '../../src/start/package/index.ts';
import { createAuthorizationServer } from '../support/authorization-server.ts';
import { type Ask, type HeaderMap, post, postModern, request, WAYS } from '../support/mcp.ts';
import { shared } from '../support/shared.ts';
import { bearer, createTestApp, insertKey, type TestApp } from '../support/test-app.ts';
import { anyone, facts, promptFacts } from '../support/tools.ts';

const nothing = v.strictObject({});
const done = () => ok({ content: [] });
const says = () => ok({ messages: [] });

const ADMIN = { ADMIN_CLAIM: 'roles=keys-admin' };

/** One of each kind, in an order that no filter makes. */
const tools = ({ guards }: ToolDeps) => [
  defineTool(guards.userJwt, { ...facts('user'), input: nothing, run: done }),
  defineTool(sequence(guards.apiKey, guards.scopes('write')), { ...facts('write'), input: nothing, run: done }),
  defineTool(anyone, { ...facts('open'), input: nothing, run: done }),
  defineTool(sequence(guards.userJwt, guards.admin), { ...facts('admin'), input: nothing, run: done }),
  defineTool(sequence(guards.apiKey, guards.scopes('read')), { ...facts('read'), input: nothing, run: done }),
  defineTool(guards.apiKey, { ...facts('key'), input: nothing, run: done }),
];
const prompts = ({ guards }: ToolDeps) => [
  definePrompt(guards.userJwt, { ...promptFacts('user'), arguments: nothing, run: says }),
  definePrompt(anyone, { ...promptFacts('open'), arguments: nothing, run: says }),
  definePrompt(sequence(guards.apiKey, guards.scopes('read', 'write')), {
    ...promptFacts('both'),
    arguments: nothing,
    run: says,
  }),
];

const ALL = { tools: ['user', 'write', 'open', 'admin', 'read', 'key'], prompts: ['user', 'open', 'both'] };

type Names = typeof ALL;
type List = keyof Names;

interface Credentials {
  readonly headers: (app: TestApp) => Promise<HeaderMap>;
  readonly sees: Names;
}

const keyWith = (app: TestApp, scopes: readonly string[]) => insertKey(app, 'alice', scopes);
const SCOPELESS = { tools: ['open', 'key'], prompts: ['open'] };
const OF_READER = { tools: ['open', 'read', 'key'], prompts: ['open'] };
const OF_USER = { tools: ['user', 'open'], prompts: ['user', 'open'] };

const CREDENTIALS: Readonly<Record<string, Credentials>> = {
  none: { headers: async () => ({}), sees: ALL },
  'a key without scopes': { headers: async (app) => ({ 'x-api-key': await keyWith(app, []) }), sees: SCOPELESS },
  'a key with one scope': { headers: async (app) => ({ 'x-api-key': await keyWith(app, ['read']) }), sees: OF_READER },
  'a key with both, as bearer': {
    headers: async (app) => ({ authorization: `Bearer ${await keyWith(app, ['write', 'read'])}` }),
    sees: { tools: ['write', 'open', 'read', 'key'], prompts: ['open', 'both'] },
  },
  'a user token': { headers: (app) => bearer(app, 'alice'), sees: OF_USER },
  'a user token of an admin': {
    headers: async (app) => ({ authorization: `Bearer ${await app.token('root', { roles: ['keys-admin'] })}` }),
    sees: { tools: ['user', 'open', 'admin'], prompts: ['user', 'open'] },
  },
  'a user token and a key': {
    headers: async (app) => ({ ...(await bearer(app, 'alice')), 'x-api-key': await keyWith(app, ['read']) }),
    sees: { tools: ['user', 'open', 'read', 'key'], prompts: ['user', 'open'] },
  },
  'a user token and a wrong key': {
    headers: async (app) => ({ ...(await bearer(app, 'alice')), 'x-api-key': 'wrong' }),
    sees: OF_USER,
  },
  'a wrong user token and a key': {
    headers: async (app) => ({ authorization: 'Bearer wrong', 'x-api-key': await keyWith(app, ['read']) }),
    sees: OF_READER,
  },
  'a wrong key': { headers: async () => ({ 'x-api-key': 'wrong' }), sees: ALL },
  'a wrong bearer token': { headers: async () => ({ authorization: 'Bearer wrong' }), sees: ALL },
};

const namesIn = (listed: readonly { readonly name: string }[]) => listed.map(({ name }) => name);

async function seen(
  app: Pick<TestApp, 'url'>,
  ask: Ask,
  headers: HeaderMap,
  params?: Record<string, unknown>,
): Promise<Names> {
  const list = async (of: List) => namesIn((await ask(app, `${of}/list`, params, headers)).result[of]);
  return { tools: await list('tools'), prompts: await list('prompts') };
}

const start = (env: Record<string, string> = {}) => createTestApp({ tools, prompts, env: { ...ADMIN, ...env } });

const app = await shared(start());
/** Everybody sees all. */
const all = await shared(start({ TOOLS_LIST: 'all' }));

/** What a server without tools of one's own offers users. */
const OF_SERVER = ['create_api_key', 'list_api_keys', 'rotate_api_key', 'revoke_api_key', 'delete_api_key'];

test.each(Object.entries(CREDENTIALS))('with %s', async (_with, { headers, sees }) => {
  const sent = await headers(app);
  for (const ask of Object.values(WAYS)) expect(await seen(app, ask, sent)).toEqual(sees);
  expect(await seen(all, WAYS.legacy, await headers(all))).toEqual(ALL);
});

describe.each(Object.entries(WAYS))('over %s', (_over, ask) => {
  test('a key in the metadata counts if no header has one; with TOOLS_LIST=all it hides nothing', async () => {
    const inMeta = { _meta: { api_key: await keyWith(app, ['read']) } };
    expect(await seen(app, ask, {}, inMeta)).toEqual(OF_READER);
    expect(await seen(app, ask, await bearer(app, 'alice'), inMeta)).toEqual(OF_USER);
    expect(await seen(app, ask, { 'x-api-key': await keyWith(app, []) }, inMeta)).toEqual(SCOPELESS);
    expect(await seen(all, ask, { 'x-api-key': await keyWith(all, []) })).toEqual(ALL);
  });

  test('a list leaves no use, no last use and no line in the log, and completes no rotation', async () => {
    await using own = await createTestApp();
    const { id } = await own.createKey('alice');
    const user = await bearer(own, 'alice');
    const { key } = (await own.call('rotate_api_key', { keyId: id }, user)).body;
    const names = async (headers: HeaderMap) => namesIn((await ask(own, 'tools/list', {}, headers)).result.tools);
    expect(await names({ 'x-api-key': key })).toEqual(['whoami', 'get_data']);
    expect(await names(user)).toEqual(OF_SERVER);
    const [listed] = (await own.call('list_api_keys', {}, user)).body.keys;
    expect([listed.lastUsedAt, listed.uses, listed.rotation.state]).toEqual([undefined, undefined, 'until_first_use']);
    expect((await own.log()).filter(({ event }) => event.startsWith('API key authentication'))).toEqual([]);
  });
});

test('a list of 2026-07-28 is private where a credential was looked at, else public; resources are public', async () => {
  const scopeOf = async (at: TestApp, method: string, headers: HeaderMap, params?: Record<string, unknown>) =>
    (await postModern(at, method, params, { headers })).body.result.cacheScope;
  const key = { 'x-api-key': await keyWith(app, []) };
  for (const method of ['tools/list', 'prompts/list']) {
    expect(await scopeOf(app, method, {})).toBe('public');
    for (const headers of [key, await bearer(app, 'alice'), { 'x-api-key': 'wrong' }]) {
      expect(await scopeOf(app, method, headers)).toBe('private');
      expect(await scopeOf(all, method, headers)).toBe('public');
    }
    const inMeta = await postModern(app, method, {}, { meta: { api_key: key['x-api-key'] } });
    expect(inMeta.body.result.cacheScope).toBe('private');
  }
  expect(await scopeOf(app, 'resources/list', key)).toBe('public');
  expect(await scopeOf(app, 'server/discover', key)).toBe('public');
});

test('a tool that is not shown is refused when it is called, as one that is shown', async () => {
  const key = { 'x-api-key': await keyWith(app, ['read']) };
  const refusal = async (name: string, headers: HeaderMap) => {
    const { result } = (await post(app, request('tools/call', { name }), headers)).body;
    return [result.isError, result.content[0].text];
  };
  expect(await refusal('write', key)).toEqual([true, 'Insufficient permissions']);
  expect(await refusal('user', key)).toEqual([true, 'This tool needs a user token; an API key was sent']);
  expect(await refusal('admin', await bearer(app, 'alice'))).toEqual([true, 'Only an admin may do this']);
  expect(await refusal('key', await bearer(app, 'alice'))).toEqual([
    true,
    'This tool needs an API key; a user token was sent',
  ]);
});

test('a credential that can’t be judged now hides nothing', async () => {
  await using issuer = await createAuthorizationServer({ nowMs: () => Date.now() });
  await using own = await start({ JWT_ISSUER: issuer.url, JWT_SECRET: '' });
  issuer.overrides.set('/jwks', () => new Response('no', { status: 500 }));
  const token = await issuer.token({ sub: 'alice', aud: own.url, exp: Date.now() / 1000 + 600 });
  const { tools: listed } = (await post(own, request('tools/list'), { authorization: `Bearer ${token}` })).body.result;
  expect(namesIn(listed)).toEqual(ALL.tools);
});

test('the OpenAPI document has all tools, whoever asks', async () => {
  const headers = { 'x-api-key': await keyWith(app, []) };
  const document = await (await fetch(`${app.url}/openapi.json`, { headers })).json();
  expect(Object.keys(document.paths)).toContain('/tools/user');
});
