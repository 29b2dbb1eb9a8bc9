// Why a client is refused: one sentence for each error to the client, the reason and what to change in the log, and nothing
// of what was sent in either. For /authorize see wrong.test.ts.

import { beforeEach, describe, expect, test } from 'bun:test';
import { ACCESS_TOKEN, EXCHANGE } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { codeByClick, codeFor, handOver, register, sentBack } from '../../support/hand-over.ts';
import { postText, sendOverSocket } from '../../support/http-socket.ts';
import { DEVICE_GRANT } from '../../support/key-request.ts';
import { refusal } from '../../support/refusal.ts';
import { bearer, createTestApp, sharedApp } from '../../support/test-app.ts';

const EXCHANGED = { grant_type: EXCHANGE, subject_token_type: ACCESS_TOKEN };
const OTHER = 'https://other.example/mcp';
/** In each request: it must come back in no response. */
const SENT = 'typed-by-a-stranger';

const app = await sharedApp({ env: { OAUTH_REDIRECTS: 'loopback', OAUTH_RESOURCES: OTHER, OAUTH_DEVICE: '1' } });
const client = await register(app);
const { key } = await app.createKey('alice');
const parent = await app.createKey('alice', { scopes: ['read', 'delegate'] });
beforeEach(() => app.clock.advance(1000)); // each reason has a line a second

type Fields = Record<string, string>;
const form = (path: string, fields: Fields | string) =>
  fetch(app.url + path, {
    method: 'POST',
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
const json = (path: string, body: unknown) => postJson(app.url + path, body);
const redeem = async (changed: Changed) => {
  const sent = {
    grant_type: 'authorization_code',
    code: await codeFor(client, key),
    code_verifier: client.verifier,
    client_id: client.clientId,
    ...changed,
  };
  return form('/token', Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== null)) as Fields);
};
const exchange = (fields: Fields) => form('/token', { ...EXCHANGED, scope: 'read', client_name: SENT, ...fields });
const refusedLines = async () => (await app.log()).filter(({ event }) => event === 'OAuth request refused');

/** No browser asks a person for a password because of it, as it does because of Basic. */
const CHALLENGE = 'Bearer realm="mcp-key-server", error="invalid_client"';

type Row = [what: string, ask: () => Promise<Response>, error: string, reason: string, about?: object];

type Changed = Record<string, string | null>;
const WRONG_VERIFIER = 'the code_verifier does not fit the code_challenge';
const OTHER_REDIRECT = 'another redirect_uri than at /authorize';
const NO_FIELD = 'no client_id, code or code_verifier';
/** What is wrong with the redemption of a code that is good. */
const OF_CODE: [what: string, changed: Changed, error: string, reason: string, about?: object][] = [
  ['no grant type', { grant_type: null }, 'invalid_request', 'no grant_type'],
  [
    'another grant type',
    { grant_type: SENT },
    'unsupported_grant_type',
    'not a grant type of this server',
    { grantType: SENT },
  ],
  ...['refresh_token', 'password', 'constructor', '__proto__'].map((grant_type): (typeof OF_CODE)[number] => [
    `the grant type ${grant_type}`,
    { grant_type },
    'unsupported_grant_type',
    'not a grant type of this server',
  ]),
  ['no client', { client_id: null }, 'invalid_request', NO_FIELD],
  ['an unknown client', { client_id: SENT }, 'invalid_client', 'neither registered here nor listed', { client: SENT }],
  ['no code', { code: null }, 'invalid_request', NO_FIELD],
  ['an unknown code', { code: 'x'.repeat(43) }, 'invalid_grant', 'the code is unknown or has ended'],
  ['a short code', { code: 'x' }, 'invalid_grant', 'the code is unknown or has ended'],
  ['no verifier', { code_verifier: null }, 'invalid_request', NO_FIELD],
  ['an empty verifier', { code_verifier: '' }, 'invalid_request', NO_FIELD],
  ['another verifier', { code_verifier: SENT.repeat(3) }, 'invalid_grant', WRONG_VERIFIER],
  ['a short verifier', { code_verifier: 'a' }, 'invalid_grant', WRONG_VERIFIER],
  ['another redirect', { redirect_uri: `http://127.0.0.1/${SENT}` }, 'invalid_grant', OTHER_REDIRECT],
  ['another port', { redirect_uri: 'http://127.0.0.1:10/callback' }, 'invalid_grant', OTHER_REDIRECT],
  ['another resource', { resource: OTHER }, 'invalid_target', 'the code is for another resource'],
];

const TOKEN: Row[] = [
  ...['a', 'grant_type', 'code', 'code_verifier', 'client_id'].map((name): Row => {
    const twice = `grant_type=authorization_code&code=x&code_verifier=y&client_id=${client.clientId}&a=1&${name}=x`;
    return [`${name} twice`, () => form('/token', twice), 'invalid_request', 'a field twice'];
  }),
  ...OF_CODE.map(([what, changed, ...refused]): Row => [what, () => redeem(changed), ...refused]),
  [
    'the code of another client',
    async () => {
      const other = await register(app, ['http://127.0.0.1/other']);
      return redeem({ client_id: other.clientId });
    },
    'invalid_grant',
    'the code is of another client',
    { host: '127.0.0.1' },
  ],
  ...[SENT, 'a'.repeat(43)].map(
    (code): Row => [
      `an unknown device code: ${code}`,
      () => form('/token', { grant_type: DEVICE_GRANT, device_code: code }),
      'invalid_grant',
      'the device_code is unknown, was used before, or its owner is deleted',
    ],
  ),
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
    const [status, challenge] = error === 'invalid_client' ? [401, CHALLENGE] : [400, null];
    expect([response.status, JSON.parse(text)]).toEqual([status, refusal(error)]);
    expect(response.headers.get('www-authenticate')).toBe(challenge);
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

test.each(OF_CODE)('%s: the code is still good, once', async (_, changed, error) => {
  const code = await codeFor(client, key);
  expect((await client.redeem(code, { code, ...changed })).body.error).toBe(error);
  expect((await client.redeem(code)).status).toBe(200);
  expect(await client.redeem(code)).toEqual({ status: 400, body: refusal('invalid_grant') });
});

test('a body that is not the right one is described, too', async () => {
  const gone = await json('/token', {});
  expect([gone.status, await gone.json()]).toEqual([
    415,
    { error: 'invalid_request', error_description: 'Content-Type must be application/x-www-form-urlencoded' },
  ]);
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

test.each([
  ['revoke_api_key', 'revoked'],
  ['delete_api_key', 'unknown'],
])('a pasted key that ended by %s before its code was redeemed says so in the log', async (tool, reason) => {
  const pasted = await app.createKey('alice');
  const code = await codeFor(client, pasted.key);
  await app.call(tool, { keyId: pasted.id }, await bearer(app, 'alice'));
  expect(await client.redeem(code)).toEqual({ status: 400, body: refusal('invalid_grant') });
  const line = { event: 'Invalid or expired API key', reason, ...(reason === 'revoked' && { keyId: pasted.id }) };
  expect((await app.log()).at(-1)).toMatchObject(line);
});

test('what no longer may be made says so in the log', async () => {
  const code = await codeByClick(app, client.page(), await bearer(app, 'carol'));
  await app.keys('block', 'carol');
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

test('lines that strangers can cause are throttled', async () => {
  const lines = (await refusedLines()).length;
  for (let at = 0; at < 20; at += 1) await form('/token', { grant_type: 'x' });
  expect((await refusedLines()).length).toBe(lines + 1);
  expect(await handOver(client.page(), { key }).then(sentBack)).toBeInstanceOf(URLSearchParams);
});

// The order of the checks before what a person has decided is looked at.

const codeOf = ({ body }: { body: string }) => JSON.parse(body).code as string;

test('size and JSON before credential where the page sends what a person decides', async () => {
  await using asked = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1' } });
  for (const path of ['/authorize', '/device/request', '/device/decision']) {
    const decide = (named = {}) => sendOverSocket(asked.url, postText(path, 'x', named)).then(codeOf);
    const codes = [await decide({ 'Content-Length': '2000000' }), await decide()];
    codes.push(await decide({ Authorization: 'Bearer x' }));
    expect({ path, codes }).toEqual({ path, codes: ['payload_too_large', 'invalid_json', 'invalid_json'] });
  }
});
