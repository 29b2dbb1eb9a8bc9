// Why a client is refused: one sentence for each error to the client, the reason and what to change in the log, and nothing
// of what was sent in either.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { codeFor, handOver, makeForConnection, type Registered, register, sentBack } from '../../support/hand-over.ts';
import { DEVICE_GRANT } from '../../support/key-request.ts';
import { refusal } from '../../support/refusal.ts';
import { bearer, createTestApp, type TestApp } from '../../support/test-app.ts';

const EXCHANGE = {
  grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
  subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
};
const OTHER = 'https://other.example/mcp';
/** In each request: it must come back in no response. */
const SENT = 'typed-by-a-stranger';

let app: TestApp;
let client: Registered;
let key: string;
let parent: { id: string; key: string };
beforeAll(async () => {
  app = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback', OAUTH_RESOURCES: OTHER, OAUTH_DEVICE: '1' } });
  client = await register(app);
  ({ key } = await app.createKey('alice'));
  parent = await app.createKey('alice', { scopes: ['read', 'delegate'] });
});
afterAll(() => app.close());
beforeEach(() => app.clock.advance(1000)); // each reason has a line a second

type Fields = Record<string, string>;
const form = (path: string, fields: Fields | string) =>
  fetch(app.url + path, {
    method: 'POST',
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
const json = (path: string, body: unknown) =>
  fetch(app.url + path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  });
const codeFields = async (changed: Fields = {}) => ({
  grant_type: 'authorization_code',
  code: await codeFor(client, key),
  code_verifier: client.verifier,
  client_id: client.clientId,
  ...changed,
});
const exchange = (fields: Fields) => form('/token', { ...EXCHANGE, scope: 'read', client_name: SENT, ...fields });
const refusedLines = async () => (await app.log()).filter(({ event }) => event === 'OAuth request refused');

type Row = [what: string, ask: () => Promise<Response>, error: string, reason: string, about?: object];

const TOKEN: Row[] = [
  ['a field twice', () => form('/token', 'grant_type=x&a=1&a=2'), 'invalid_request', 'a field twice'],
  ['no grant type', () => form('/token', { code: SENT }), 'invalid_request', 'no grant_type'],
  [
    'another grant type',
    () => form('/token', { grant_type: SENT }),
    'unsupported_grant_type',
    'not a grant type of this server',
    { grantType: SENT },
  ],
  [
    'no verifier',
    async () => form('/token', await codeFields({ code_verifier: '' })),
    'invalid_request',
    'no client_id, code or code_verifier',
  ],
  [
    'an unknown client',
    async () => form('/token', await codeFields({ client_id: SENT })),
    'invalid_client',
    'neither registered here nor listed',
    { client: SENT },
  ],
  [
    'an unknown code',
    async () => form('/token', await codeFields({ code: 'x'.repeat(43) })),
    'invalid_grant',
    'the code is unknown or has ended',
  ],
  [
    'the code of another client',
    async () => {
      const other = await register(app, ['http://127.0.0.1/other']);
      return form('/token', await codeFields({ client_id: other.clientId }));
    },
    'invalid_grant',
    'the code is of another client',
    { host: '127.0.0.1' },
  ],
  [
    'another verifier',
    async () => form('/token', await codeFields({ code_verifier: SENT.repeat(3) })),
    'invalid_grant',
    'the code_verifier does not fit the code_challenge',
  ],
  [
    'another redirect',
    async () => form('/token', await codeFields({ redirect_uri: `http://127.0.0.1/${SENT}` })),
    'invalid_grant',
    'another redirect_uri than at /authorize',
  ],
  [
    'another resource',
    async () => form('/token', await codeFields({ resource: OTHER })),
    'invalid_target',
    'the code is for another resource',
  ],
  [
    'an unknown device code',
    () => form('/token', { grant_type: DEVICE_GRANT, device_code: SENT }),
    'invalid_grant',
    'the device_code is unknown, was used before, or its owner is deleted',
  ],
  ['no device code', () => form('/token', { grant_type: DEVICE_GRANT }), 'invalid_request', 'no device_code'],
  [
    'an exchange by a key without delegate',
    () => exchange({ subject_token: key }),
    'invalid_grant',
    'the key lacks the scope delegate',
    { userId: 'alice' },
  ],
  [
    'an exchange for a scope that the key lacks',
    () => exchange({ subject_token: parent.key, scope: `read ${SENT}` }),
    'invalid_scope',
    'the key may not hand on these scopes',
    { userId: 'alice', scopes: [SENT] },
  ],
  [
    'an exchange for no scope',
    () => exchange({ subject_token: parent.key, scope: '' }),
    'invalid_scope',
    'no scope was asked for',
  ],
  [
    'an exchange for an unknown resource',
    () => exchange({ subject_token: parent.key, resource: `https://${SENT}.example/` }),
    'invalid_target',
    'the key is bound to another resource, or OAUTH_RESOURCES does not list this one',
    { resource: `https://${SENT}.example/` },
  ],
  [
    'an exchange with an audience',
    () => exchange({ subject_token: parent.key, audience: SENT }),
    'invalid_request',
    'the field audience',
  ],
];

const REGISTER: Row[] = [
  ['no object', () => json('/register', [SENT]), 'invalid_client_metadata', 'is no JSON object'],
  [
    'no redirects',
    () => json('/register', { client_name: SENT }),
    'invalid_redirect_uri',
    'redirect_uris is no list of at most 10 texts of 2000 characters together',
  ],
  [
    'redirects that are not admitted',
    () => json('/register', { redirect_uris: [`${SENT}://callback`, 'https://x.example/'] }),
    'invalid_redirect_uri',
    'OAUTH_REDIRECTS admits none of them',
    { redirectUris: [`${SENT}://callback`, 'https://x.example/'] },
  ],
];

const DEVICE: Row[] = [
  ['a field twice', () => form('/device_authorization', 'scope=a&scope=b'), 'invalid_request', 'a field twice'],
  [
    'a name that is not valid',
    () => form('/device_authorization', { client_name: `${SENT}\n` }),
    'invalid_request',
    'a client_name that is not valid',
  ],
  [
    'an unknown resource',
    () => form('/device_authorization', { resource: `https://${SENT}.example/` }),
    'invalid_target',
    'OAUTH_RESOURCES does not list the resource',
    { resource: `https://${SENT}.example/` },
  ],
];

describe.each([
  ['token', TOKEN],
  ['register', REGISTER],
  ['device_authorization', DEVICE],
] as const)('/%s', (route, table) => {
  test.each(table)('%s', async (_, ask, error, reason, about = {}) => {
    const response = await ask();
    const text = await response.text();
    expect([response.status, JSON.parse(text)]).toEqual([error === 'invalid_client' ? 401 : 400, refusal(error)]);
    expect(text).not.toContain(SENT);
    expect((await refusedLines()).at(-1)).toMatchObject({ level: 'warn', route, error, reason, ...about });
    for (const secret of [key, parent.key, client.verifier]) expect(await app.logText()).not.toContain(secret);
  });

  test('each error has one sentence, whatever the reason', async () => {
    const sentences = new Map<string, Set<string>>();
    for (const [, ask] of table) {
      const { error, error_description } = (await (await ask()).json()) as Record<string, string>;
      sentences.set(error ?? '', (sentences.get(error ?? '') ?? new Set()).add(error_description ?? ''));
    }
    for (const [error, texts] of sentences) expect([error, texts.size]).toEqual([error, 1]);
  });
});

test('a body that is not the right one is described, too', async () => {
  const gone = (await json('/token', {})).json();
  expect(await gone).toEqual({
    error: 'invalid_request',
    error_description: 'Content-Type must be application/x-www-form-urlencoded',
  });
  const big = await json('/register', { redirect_uris: ['http://127.0.0.1/'], x: 'x'.repeat(17_000) });
  expect([big.status, await big.json()]).toEqual([
    413,
    { error: 'invalid_request', error_description: 'The body may have at most 16 KiB' },
  ]);
});

test('an unknown, an ended and a blocked key, a child, and one without delegate are one answer, and five reasons', async () => {
  const ended = await app.createKey('alice', { scopes: ['read', 'delegate'] });
  await app.call('revoke_api_key', { keyId: ended.id }, await bearer(app, 'alice'));
  const blocked = await app.createKey('mallory', { scopes: ['read', 'delegate'] });
  await app.keys('block', 'mallory');
  app.clock.advance(1000);
  const child = ((await (await exchange({ subject_token: parent.key })).json()) as { access_token: string })
    .access_token;
  const unknown = `sk_test_${'0'.repeat(64)}`;
  const answers = new Set<string>();
  for (const subject_token of [unknown, ended.key, blocked.key, child, key]) {
    const response = await exchange({ subject_token });
    answers.add(`${response.status} ${await response.text()}`);
  }
  expect(answers.size).toBe(1);
  const reasons = (await app.log())
    .filter(({ event }) => event === 'Invalid or expired API key' || event === 'OAuth request refused')
    .slice(-5);
  expect(reasons.map(({ reason }) => reason)).toEqual([
    'unknown',
    'revoked',
    'blocked',
    'the key was made by another',
    'the key lacks the scope delegate',
  ]);
});

test('a pasted key that ended before its code was redeemed says so in the log', async () => {
  const pasted = await app.createKey('alice');
  const code = await codeFor(client, pasted.key);
  await app.call('revoke_api_key', { keyId: pasted.id }, await bearer(app, 'alice'));
  expect(await client.redeem(code)).toEqual({ status: 400, body: refusal('invalid_grant') });
  expect((await app.log()).at(-1)).toMatchObject({
    event: 'Invalid or expired API key',
    reason: 'revoked',
    keyId: pasted.id,
  });
});

test('what no longer may be made says so in the log', async () => {
  const back = await makeForConnection(app, client.page(), await bearer(app, 'carol'));
  const { location } = (await back.json()) as { location: string };
  await app.keys('block', 'carol');
  const code = new URL(location).searchParams.get('code') ?? '';
  expect(await client.redeem(code)).toEqual({ status: 400, body: refusal('invalid_grant') });
  expect((await refusedLines()).at(-1)).toMatchObject({ userId: 'carol', reason: expect.stringContaining('blocked') });
});

test('a program that polls is not logged while nobody has decided', async () => {
  const asked = (await (await form('/device_authorization', {})).json()) as { device_code: string };
  const before = (await refusedLines()).length;
  const poll = () => form('/token', { grant_type: DEVICE_GRANT, device_code: asked.device_code });
  expect(await (await poll()).json()).toEqual(refusal('authorization_pending'));
  expect(await (await poll()).json()).toEqual(refusal('slow_down'));
  expect((await refusedLines()).length).toBe(before);
});

describe('/authorize', () => {
  test.each<[string, Record<string, string | null>, string, object]>([
    [
      'an unknown client',
      { client_id: SENT },
      'the client_id was not given by this server, or by another database',
      {},
    ],
    [
      'a redirect that is not its own',
      { redirect_uri: `http://127.0.0.1/${SENT}` },
      'the client has not registered the redirect_uri',
      { redirectUri: `http://127.0.0.1/${SENT}`, client: 'by hand' },
    ],
    [
      'an unknown resource',
      { resource: `https://${SENT}.example/` },
      'OAUTH_RESOURCES does not list the resource',
      { error: 'invalid_target', resource: `https://${SENT}.example/` },
    ],
    ['no challenge', { code_challenge: null }, 'no code_challenge of 43 characters', { error: 'invalid_request' }],
    ['another method', { code_challenge_method: 'plain' }, 'code_challenge_method is not S256', {}],
    [
      'another response',
      { response_type: 'token' },
      'response_type is not code',
      { error: 'unsupported_response_type' },
    ],
  ])('%s: on the page and by a click the log says why', async (_, changed, reason, about) => {
    const page = client.page(changed);
    expect((await fetch(page, { redirect: 'manual' })).status).toBeOneOf([303, 400]);
    expect((await refusedLines()).at(-1)).toMatchObject({ route: 'authorize', reason, ...about });
    app.clock.advance(1000);
    const lines = (await refusedLines()).length;
    expect((await makeForConnection(app, page, await bearer(app, 'alice'))).status).toBe(400);
    expect((await refusedLines()).length).toBe(lines + 1);
  });

  test('a redirect that has left OAUTH_REDIRECTS', async () => {
    const env = { OAUTH_REDIRECTS: 'loopback https://gone.example/back' };
    const before = await createTestApp({ env, store: 'embedded' });
    const gone = await register(before, ['https://gone.example/back']);
    await before.close();
    const after = { OAUTH_REDIRECTS: 'loopback' };
    await using now = await createTestApp({ env: after, store: 'embedded', folder: before.folder });
    const page = new URL(gone.page());
    page.port = new URL(now.url).port;
    expect((await fetch(page)).status).toBe(400);
    expect((await now.log()).at(-1)).toMatchObject({
      event: 'OAuth request refused',
      reason: 'OAUTH_REDIRECTS does not admit the redirect_uri',
      redirectUri: 'https://gone.example/back',
    });
  });
});

test('lines that strangers can cause are throttled', async () => {
  const lines = (await refusedLines()).length;
  for (let at = 0; at < 20; at += 1) await form('/token', { grant_type: 'x' });
  expect((await refusedLines()).length).toBe(lines + 1);
  expect(await handOver(client.page(), { key }).then(sentBack)).toBeInstanceOf(URLSearchParams);
});
