// Every tool, with every kind of credential, over every transport and protocol revision: one expected outcome each,
// worked out here from the README alone, and compared with what the server responds in every way there is to ask.

import { describe, expect, test } from 'bun:test';
import { SignJWT } from 'jose';
import { postJson } from '../support/client.ts';
import { rows } from '../support/everything.ts';
import { type HeaderMap, META, MODERN, openSse } from '../support/mcp.ts';
import { problemText, publicPart, type ServerCode } from '../support/tables.ts';
import { sharedApp, TEST_SECRET } from '../support/test-app.ts';

/** A code; with the kind of credential that the sentence names instead, if it names one. */
type Outcome =
  | ServerCode
  | 'ok'
  | 'missing_token: a key'
  | 'missing_token: without Bearer'
  | 'missing_api_key: without Bearer'
  | 'invalid_token: a key'
  | 'invalid_token: expired'
  | 'invalid_api_key: a token';

const codeOf = (outcome: Outcome) => outcome.split(':')[0] as ServerCode | 'ok';

function sentenceOf(outcome: Outcome): string {
  if (outcome.endsWith(': a key')) return 'This tool needs a user token; an API key was sent';
  if (outcome.endsWith(': a token')) return 'This tool needs an API key; a user token was sent';
  const code = codeOf(outcome) as 'missing_api_key' | 'missing_token';
  if (outcome.endsWith(': expired')) return publicPart({ code: 'invalid_token', reason: '', expired: true }).detail;
  if (outcome.endsWith(': without Bearer')) return publicPart({ code, lacksScheme: true }).detail;
  return problemText(code).detail;
}

/** What a request carries: headers, and `_meta.api_key`. */
interface Carried {
  readonly headers?: HeaderMap;
  readonly meta?: string;
}

const app = await sharedApp({ env: { RATE_LIMIT_REQUESTS: '0' } });
const jwt = await app.token('alice');
const expiredJwt = await app.token('alice', { exp: Math.floor(app.clock.nowMs() / 1000) - 60 });
const foreignJwt = await new SignJWT({ sub: 'alice', exp: 9_999_999_999 })
  .setProtectedHeader({ alg: 'HS256' })
  .sign(new TextEncoder().encode(`${TEST_SECRET} of somebody else`));
const { key } = await app.createKey('alice');
const scopeless = (await app.createKey('alice', { scopes: ['write', 'READ', 'read:orders'] })).key;
const revoked = await app.createKey('alice');
await app.call('revoke_api_key', { keyId: revoked.id }, { authorization: `Bearer ${jwt}` });
const deleted = await app.createKey('alice');
await app.call('delete_api_key', { keyId: deleted.id }, { authorization: `Bearer ${jwt}` });
const expired = (await app.createKey('alice', { expiresInDays: 1e-6 })).key;
app.clock.advance(1000);
const otherPrefix = key.replace('sk_test_', 'sk_live_');
const never = `sk_test_${'0'.repeat(64)}`;

const bearer = (text: string) => ({ authorization: `Bearer ${text}` });
const x = (text: string) => ({ 'x-api-key': text });
/** What each carries, and what management tools and get_data say to it. whoami is get_data without a scope. */
const CREDENTIALS: Readonly<Record<string, readonly [Carried, Outcome, Outcome]>> = {
  nothing: [{}, 'missing_token', 'missing_api_key'],
  'a user token': [{ headers: bearer(jwt) }, 'ok', 'invalid_api_key: a token'],
  'an expired user token': [{ headers: bearer(expiredJwt) }, 'invalid_token: expired', 'invalid_api_key: a token'],
  'a user token of another secret': [{ headers: bearer(foreignJwt) }, 'invalid_token', 'invalid_api_key: a token'],
  'a user token in X-API-Key': [{ headers: x(jwt) }, 'missing_token', 'invalid_api_key: a token'],
  'a user token in _meta': [{ meta: jwt }, 'missing_token', 'invalid_api_key: a token'],
  'a user token without Bearer': [
    { headers: { authorization: jwt } },
    'missing_token: without Bearer',
    'missing_api_key: without Bearer',
  ],
  'another scheme': [{ headers: { authorization: 'Basic YWxpY2U6cGFzc3dvcmQ=' } }, 'missing_token', 'missing_api_key'],
  'a key in X-API-Key': [{ headers: x(key) }, 'missing_token: a key', 'ok'],
  'a key in Authorization': [{ headers: bearer(key) }, 'invalid_token: a key', 'ok'],
  'a key in _meta': [{ meta: key }, 'missing_token: a key', 'ok'],
  'a key without the scope': [{ headers: x(scopeless) }, 'missing_token: a key', 'insufficient_scope'],
  'a revoked key': [{ headers: x(revoked.key) }, 'missing_token: a key', 'invalid_api_key'],
  'a revoked key in _meta': [{ meta: revoked.key }, 'missing_token: a key', 'invalid_api_key'],
  'a deleted key': [{ headers: x(deleted.key) }, 'missing_token: a key', 'invalid_api_key'],
  'an expired key': [{ headers: bearer(expired) }, 'invalid_token: a key', 'invalid_api_key'],
  // Not found, because it is a different text; that a prefix alone decides nothing is tested in calls/api-key.test.ts.
  'a key with the other prefix': [{ headers: x(otherPrefix) }, 'missing_token: a key', 'invalid_api_key'],
  'a key never issued': [{ headers: x(never) }, 'missing_token: a key', 'invalid_api_key'],
  'a user token and a key': [{ headers: { ...bearer(jwt), ...x(key) } }, 'ok', 'ok'],
  'a user token and a key in _meta': [{ headers: bearer(jwt), meta: key }, 'ok', 'invalid_api_key: a token'],
  'a bad user token and a key': [{ headers: { ...bearer(expiredJwt), ...x(key) } }, 'invalid_token: expired', 'ok'],
  'a user token and a bad key': [{ headers: { ...bearer(jwt), ...x(revoked.key) } }, 'ok', 'invalid_api_key'],
  'a bad key before a good one': [
    { headers: { ...x(never), ...bearer(key) }, meta: key },
    'invalid_token: a key',
    'invalid_api_key',
  ],
  'a good key before bad ones': [
    { headers: { ...x(key), ...bearer(never) }, meta: never },
    'invalid_token: a key',
    'ok',
  ],
  'a good key in Authorization before a bad one in _meta': [
    { headers: bearer(key), meta: never },
    'invalid_token: a key',
    'ok',
  ],
  'an empty X-API-Key before a key': [{ headers: { ...x(''), ...bearer(key) } }, 'invalid_token: a key', 'ok'],
};

/** Input that each tool accepts, and that changes nothing that other calls need. */
const INPUTS: Readonly<Record<string, Record<string, unknown>>> = {
  create_api_key: { name: 'made by the matrix', scopes: [] },
  list_api_keys: {},
  rotate_api_key: { keyId: 'f'.repeat(32) }, // there is none
  revoke_api_key: { keyId: 'f'.repeat(32) },
  delete_api_key: { keyId: 'f'.repeat(32) },
  get_data: {},
  whoami: {},
};

/** Over MCP a key in a header that has ended is 401 for the whole POST, whatever it calls. */
const ENDED: readonly string[] = ['a revoked key', 'an expired key', 'a user token and a bad key'];

function expected(tool: string, managing: Outcome, reading: Outcome): Outcome {
  if (tool === 'rotate_api_key') return managing === 'ok' ? 'key_not_found' : managing;
  if (tool === 'get_data') return reading;
  if (tool === 'whoami') return reading === 'insufficient_scope' ? 'ok' : reading;
  return managing;
}

interface Asked {
  readonly ok: boolean;
  /** Over REST alone. */
  readonly code?: ServerCode;
  /** All that the tool says, without what differs from call to call. */
  readonly said: string;
}
type Ask = (tool: string, input: Record<string, unknown>, carried: Carried) => Promise<Asked>;

interface ToolMessage {
  readonly result: { readonly isError?: boolean; readonly content: readonly [{ readonly text: string }] };
}

/** The 401 for a whole POST. */
interface Refusal {
  readonly detail: string;
}

const readMessage = (message: ToolMessage | Refusal): Asked =>
  'detail' in message
    ? { ok: false, said: message.detail }
    : { ok: message.result.isError !== true, said: message.result.content[0].text };

const askRest: Ask = async (tool, input, { headers = {}, meta }) => {
  const body = meta === undefined ? input : { ...input, _meta: { api_key: meta } };
  const { status, headers: sent, body: said } = await app.call(tool, body, headers);
  if (status === 200) return { ok: true, said: JSON.stringify(said) };
  expect(status).toBe(problemText(said.code).status);
  if (status !== 404) expect(sent.get('www-authenticate')).toStartWith('Bearer ');
  return { ok: false, code: said.code, said: said.detail };
};

const callMessage = (tool: string, args: object, meta: string | undefined, where: 'params' | 'arguments') => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: {
    name: tool,
    arguments: meta !== undefined && where === 'arguments' ? { ...args, _meta: { api_key: meta } } : args,
    ...(meta !== undefined && where === 'params' && { _meta: { api_key: meta } }),
  },
});

async function postMcp(body: unknown, headers: HeaderMap): Promise<unknown> {
  const response = await postJson(`${app.url}/mcp`, body, headers);
  if (response.status === 401) return response.json();
  expect(response.status).toBe(200);
  const text = await response.text();
  return JSON.parse(
    response.headers.get('content-type') === 'text/event-stream' ? (/^data: (.*)$/m.exec(text)?.[1] ?? '') : text,
  );
}

const askLegacy =
  (version: string | null, where: 'params' | 'arguments', accept = 'application/json, text/event-stream'): Ask =>
  async (tool, input, { headers = {}, meta }) => {
    const all = { accept, ...(version !== null && { 'mcp-protocol-version': version }), ...headers };
    return readMessage((await postMcp(callMessage(tool, input, meta, where), all)) as ToolMessage | Refusal);
  };

const askInBatch: Ask = async (tool, input, { headers = {}, meta }) => {
  const batch = [{ jsonrpc: '2.0', id: 'before', method: 'ping' }, callMessage(tool, input, meta, 'params')];
  const posted = await postMcp(batch, { 'mcp-protocol-version': '2025-03-26', ...headers });
  const response = Array.isArray(posted) ? posted[1] : posted;
  if (response === undefined) throw new Error('no response in the batch');
  return readMessage(response as ToolMessage | Refusal);
};

const askModern =
  (where: 'params' | 'arguments'): Ask =>
  async (tool, input, { headers = {}, meta }) => {
    const message = callMessage(tool, input, meta, where);
    const body = { ...message, params: { ...message.params, _meta: { ...META, ...message.params._meta } } };
    const mirrored = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': tool };
    return readMessage((await postMcp(body, { ...mirrored, ...headers })) as ToolMessage | Refusal);
  };

/** On a stream of its own each time: a stream belongs to the first user it sees. */
const askSse: Ask = async (tool, input, { headers = {}, meta }) => {
  const stream = await openSse(app);
  const { status, body } = await stream.post(callMessage(tool, input, meta, 'params'), headers);
  expect([202, 401]).toContain(status);
  const response = readMessage(status === 401 ? body : await stream.nextMessage());
  await stream.drop();
  return response;
};

const TRANSPORTS: Readonly<Record<string, Ask>> = {
  'POST /tools': askRest,
  '/mcp without a version': askLegacy(null, 'params'),
  '/mcp 2024-11-05': askLegacy('2024-11-05', 'arguments'),
  '/mcp 2025-03-26': askLegacy('2025-03-26', 'params'),
  '/mcp 2025-06-18': askLegacy('2025-06-18', 'arguments'),
  '/mcp 2025-11-25': askLegacy('2025-11-25', 'params'),
  '/mcp, answered as an event stream': askLegacy('2025-11-25', 'params', 'text/event-stream'),
  '/mcp, in a batch': askInBatch,
  '/mcp 2026-07-28': askModern('params'),
  '/mcp 2026-07-28, key in the arguments': askModern('arguments'),
  '/sse': askSse,
};

/** Over REST all of them; elsewhere one of each kind, as one guard decides for all. */
const OF_EACH_KIND = [
  'nothing',
  'a user token',
  'an expired user token',
  'a user token without Bearer',
  'a key in X-API-Key',
  'a key in Authorization',
  'a key in _meta',
  'a key without the scope',
  'a revoked key in _meta',
  'a user token and a key in _meta',
  'a bad key before a good one',
];
const ALL = Object.entries(CREDENTIALS).map(([name, of]) => [name, ...of] as const);
const ofEachKind = ALL.filter(([name]) => OF_EACH_KIND.includes(name));
const others = ALL.filter(([name]) => !OF_EACH_KIND.includes(name));

describe.each(Object.entries(TRANSPORTS))('over %s', (transport, ask) => {
  const credentials = transport === 'POST /tools' ? ALL : rows([...ofEachKind, ...others], ofEachKind.length);
  test.each([...credentials])('with %s', async (name, credential, managing, reading) => {
    for (const [tool, input] of Object.entries(INPUTS)) {
      app.clock.advance(50); // each list needs its token
      const asked = await ask(tool, input, credential);
      const isWhole = transport !== 'POST /tools' && ENDED.includes(name);
      const outcome = isWhole ? 'invalid_api_key' : expected(tool, managing, reading);
      const { code = codeOf(outcome), said } = asked;
      if (outcome === 'ok') expect({ tool, ...asked }).toMatchObject({ tool, ok: true });
      else expect({ tool, code, said }).toEqual({ tool, code: codeOf(outcome), said: sentenceOf(outcome) });
    }
  });

  test('a foreign id, whatever the state of its key, gets the response of one that never existed', async () => {
    const mallory = { headers: { authorization: `Bearer ${await app.token('mallory')}` } };
    const own = await app.createKey('victim');
    const revoked = await app.createKey('victim');
    const gone = await app.createKey('victim');
    const victim = { authorization: `Bearer ${await app.token('victim')}` };
    await app.call('revoke_api_key', { keyId: revoked.id }, victim);
    await app.call('delete_api_key', { keyId: gone.id }, victim);
    for (const tool of ['rotate_api_key', 'revoke_api_key', 'delete_api_key']) {
      const missing = await ask(tool, { keyId: '0'.repeat(32) }, mallory);
      for (const keyId of [own.id, revoked.id, gone.id, own.id.toUpperCase(), own.key, `${own.id}\0`, 'no id', '']) {
        expect({ keyId, ...(await ask(tool, { keyId }, mallory)) }).toEqual({ keyId, ...missing });
      }
    }
    expect((await ask('list_api_keys', {}, mallory)).said).not.toContain(own.id);
    expect((await ask('get_data', {}, { headers: { 'x-api-key': own.key } })).ok).toBe(true);
    const { keys } = (await app.call('list_api_keys', {}, victim)).body as { keys: { id: string; active: boolean }[] };
    expect(keys.find(({ id }) => id === own.id)?.active).toBe(true);
    expect(keys.find(({ id }) => id === revoked.id)?.active).toBe(false);
  });
});

/** With a key in the body, which /verify doesn't read. Of the others it says what get_data says. */
const VERIFIED: Readonly<Record<string, Outcome>> = {
  'a user token in _meta': 'missing_api_key',
  'a key in _meta': 'missing_api_key',
  'a revoked key in _meta': 'missing_api_key',
};

describe('for other services', () => {
  const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
  const isKey = (outcome: Outcome) => outcome === 'ok' || outcome === 'insufficient_scope';

  test.each(ALL)('/verify with %s', async (name, { headers = {}, meta }, _, reading) => {
    const body = JSON.stringify({ _meta: { api_key: meta } });
    const response = await fetch(`${app.url}/verify?scope=read`, { method: 'POST', headers, body });
    const code = response.status === 200 ? 'ok' : ((await response.json()) as { code: string }).code;
    expect(code).toBe(codeOf(VERIFIED[name] ?? reading));
    expect(response.headers.get('x-key-owner')).toBe(code === 'ok' ? 'alice' : '');
  });

  test.each(ALL)('/introspect by %s: nobody without the scope', async (name, { headers }, _, reading) => {
    const body = `token=${key}`;
    const response = await fetch(`${app.url}/introspect`, { method: 'POST', headers: { ...headers, ...FORM }, body });
    expect({ status: response.status, body: await response.json() }).toEqual(
      isKey(VERIFIED[name] ?? reading)
        ? { status: 403, body: { error: 'insufficient_scope' } }
        : { status: 401, body: { error: 'invalid_client' } },
    );
  });

  test.each(ALL)('/introspect of %s', async (_name, { headers = {}, meta = '-' }, _, reading) => {
    const [sent] = ['x-api-key', 'authorization'].map((header) => headers[header]).filter(Boolean);
    const token = sent?.replace('Bearer ', '') ?? meta; // the one that decides
    const service = await app.createKey('operator', { scopes: ['introspect'] });
    const response = await fetch(`${app.url}/introspect`, {
      method: 'POST',
      headers: { ...FORM, 'x-api-key': service.key },
      body: new URLSearchParams({ token }).toString(),
    });
    expect(((await response.json()) as { active: boolean }).active).toBe(isKey(reading));
  });
});

test('over REST a foreign id and a missing one differ in no header either', async () => {
  const { id } = await app.createKey('victim');
  const mallory = { authorization: `Bearer ${await app.token('mallory')}` };
  for (const tool of ['revoke_api_key', 'delete_api_key']) {
    const [foreign, missing] = await Promise.all(
      [id, '0'.repeat(32)].map(async (keyId) => {
        const { status, headers, body } = await app.call(tool, { keyId }, mallory);
        return { status, body, headers: [...headers].filter(([name]) => !['date', 'ratelimit'].includes(name)) };
      }),
    );
    expect(foreign).toEqual(missing as NonNullable<typeof missing>);
  }
});
