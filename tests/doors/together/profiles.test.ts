// JWTs that were made for another purpose (`typ`), of whoever signs user tokens, with the user's `sub` and this server as
// `aud`: at each door that takes a user token, and at those that take keys.

import { afterAll, describe, expect, test } from 'bun:test';
import { exchange } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { handmade } from '../../support/handmade-token.ts';
import { createIssuer, type Issuer } from '../../support/issuer.ts';
import { call, fetchMcp, post, request } from '../../support/mcp.ts';
import { createTestApp, insertKey, readResponse, sharedApp, type TestApp } from '../../support/test-app.ts';
import { expectRefused } from '../../users/refused-token.ts';

const OTHER_PROFILES = [
  'oauth-id-jag+jwt',
  'OAuth-ID-JAG+JWT',
  'application/oauth-id-jag+jwt',
  'APPLICATION/secevent+jwt',
  'secevent+jwt',
  'logout+jwt',
  'dpop+jwt',
  'token-introspection+jwt',
  'dc+jwt',
  '+jwt',
  'at+jwt+jwt',
  'x/at+jwt',
  'application/application/at+jwt',
  ' at+jwt',
  null,
  7,
  true,
  ['JWT'],
  { a: 1 },
];

const USERS = [
  undefined,
  'JWT',
  'jwt',
  'JOSE',
  'at+jwt',
  'AT+JWT',
  'application/at+jwt',
  'Application/AT+jwt',
  '',
  'x',
];

/** `typ` left out where it is undefined. */
type MakeToken = (typ: unknown, claims?: object) => string | Promise<string>;

interface Signers {
  readonly env: Record<string, string | undefined>;
  readonly tokenOf: (app: TestApp) => MakeToken;
  close(): Promise<void>;
}

const inAnHour = (app: TestApp) => Math.floor(app.clock.nowMs() / 1000) + 3600;
const headerOf = (typ: unknown) => (typ === undefined ? {} : { typ });

const ofSecret = async (): Promise<Signers> => ({
  env: {},
  tokenOf: (app) => (typ, claims) =>
    handmade({ alg: 'HS256', ...headerOf(typ) }, { sub: 'alice', exp: inAnHour(app), ...claims }),
  close: async () => {},
});

const ofIssuer = (envOf: (issuer: Issuer) => Record<string, string | undefined>) => async (): Promise<Signers> => {
  const issuer = await createIssuer();
  return {
    env: { JWT_SECRET: undefined, ...envOf(issuer) },
    tokenOf: (app) => (typ, claims) =>
      issuer.token({ sub: 'alice', aud: app.url, exp: inAnHour(app), ...claims }, { header: headerOf(typ) }),
    close: async () => issuer[Symbol.asyncDispose](),
  };
};

describe.each([
  ['a secret', ofSecret],
  ['an issuer', ofIssuer(({ url }) => ({ JWT_ISSUER: url }))],
  ['a key set', ofIssuer(({ jwksUrl }) => ({ JWT_JWKS_URL: jwksUrl }))],
])('of %s', async (_, make) => {
  const signers = await make();
  afterAll(signers.close);
  const app = await sharedApp({ env: { ...signers.env, ADMIN_CLAIM: 'role=admin', OAUTH_DEVICE: '1' } });
  const challenging = await sharedApp({ env: { ...signers.env, OAUTH_REDIRECTS: 'loopback' } });
  const token = signers.tokenOf(app);

  const bearer = async (typ: unknown, claims = {}) => ({ authorization: `Bearer ${await token(typ, claims)}` });

  const postTo = async (at: TestApp, path: string, body: object, headers: Record<string, string>) =>
    readResponse(await postJson(at.url + path, body, headers));

  test.each(OTHER_PROFILES.map((typ) => [typ]))('typ %j is no user token, and the log says why', async (typ) => {
    await expectRefused(app, await token(typ), 'header');
  });

  test.each(USERS.map((typ) => [typ]))('typ %j can be a user token', async (typ) => {
    expect((await app.call('list_api_keys', {}, await bearer(typ))).status).toBe(200);
  });

  /** Each door's response to a token of another profile, and to a user's. */
  const DOORS: readonly (readonly [string, (headers: Record<string, string>) => Promise<unknown>, unknown, unknown])[] =
    [
      ...[
        ['create_api_key', { name: 'x', scopes: ['read'] }, 200],
        ['list_api_keys', {}, 200],
        ['revoke_api_key', { keyId: '0'.repeat(32) }, 200],
        ['delete_api_key', { keyId: '0'.repeat(32) }, 200],
        ['rotate_api_key', { keyId: '0'.repeat(32) }, 404],
        ['admin_list_keys', {}, 200],
      ].map(
        ([tool, input, good]) =>
          [
            `the tool ${tool}`,
            async (headers: Record<string, string>) => (await app.call(String(tool), input as object, headers)).status,
            401,
            good,
          ] as const,
      ),
      [
        '/keys/update',
        async (headers) => (await postTo(app, '/keys/update', { keyId: 'x' }, headers)).status,
        401,
        404,
      ],
      [
        '/keys/events',
        async (headers) => (await postTo(app, '/keys/events', { keyId: 'x' }, headers)).status,
        401,
        404,
      ],
      [
        '/device/request',
        async (headers) => (await postTo(app, '/device/request', { userCode: 'x' }, headers)).status,
        401,
        404,
      ],
      [
        '/device/decision',
        async (headers) => (await postTo(app, '/device/decision', { userCode: 'x', approve: false }, headers)).status,
        401,
        404,
      ],
      [
        '/authorize by a click',
        async (headers) => (await postTo(challenging, '/authorize', {}, headers)).body.code,
        'invalid_token',
        'invalid_input',
      ],
      [
        'a tool for users on /mcp',
        async (headers) =>
          (await post(app, call('list_api_keys'), headers)).body.result?.structuredContent !== undefined,
        false,
        true,
      ],
      [
        '/mcp where clients sign in',
        async (headers) => (await fetchMcp(challenging, request('ping'), headers)).status,
        401,
        200,
      ],
      [
        '/sse where clients sign in',
        async (headers) => {
          const response = await fetch(`${challenging.url}/sse`, { headers });
          await response.body?.cancel();
          return response.status;
        },
        401,
        200,
      ],
      [
        'the list of tools for the caller',
        async (headers) => {
          const { body } = await post(app, request('tools/list'), headers);
          // Everybody else sees all, also what isn't for users.
          return body.result?.tools.every(({ name }: { name: string }) => name !== 'get_data') === true;
        },
        false,
        true,
      ],
    ];

  test.each(DOORS)('%s', async (_, respond, refused, good) => {
    const claims = { role: 'admin', aud: [app.url, challenging.url] };
    for (const typ of ['oauth-id-jag+jwt', 'application/Logout+JWT', null])
      expect([typ, await respond(await bearer(typ, claims))]).toEqual([typ, refused]);
    for (const typ of [undefined, 'JWT', 'application/AT+JWT'])
      expect([typ, await respond(await bearer(typ, claims))]).toEqual([typ, good]);
  });

  test('where keys are taken, a JWT of any profile is an unknown key', async () => {
    const key = await insertKey(app, 'service', ['introspect']);
    for (const typ of [undefined, 'JWT', 'oauth-id-jag+jwt', null]) {
      const jwt = await token(typ);
      expect((await app.useKey(jwt)).body.code).toBe('invalid_api_key');
      expect((await app.call('get_data', {}, { authorization: `Bearer ${jwt}` })).body.code).toBe('invalid_api_key');
      expect((await fetch(`${app.url}/verify`, { headers: { 'x-api-key': jwt } })).status).toBe(401);
      const asked = {
        method: 'POST',
        body: new URLSearchParams({ token: jwt }),
        headers: { authorization: `Bearer ${key}` },
      };
      expect(await (await fetch(`${app.url}/introspect`, asked)).json()).toEqual({ active: false });
      expect((await exchange(app, jwt)).body).toMatchObject({ error: 'invalid_grant' });
    }
  });

  test('exp is in seconds: up to 10^11 it counts, above it is refused, and the log says why', async () => {
    const reason = '"exp" claim must be in seconds, up to 10^11';
    expect((await app.call('list_api_keys', {}, await bearer('JWT', { exp: 1e11 }))).status).toBe(200);
    for (const exp of [1e11 + 1, 1e11 + 0.5, app.clock.nowMs() + 3_600_000, 1e300])
      await expectRefused(app, await token('JWT', { exp }), reason);
  });
});

test('an exp beyond every number is refused', async () => {
  await using app = await createTestApp();
  await expectRefused(app, handmade({ alg: 'HS256' }, '{"sub":"alice","exp":1e400}'));
});
