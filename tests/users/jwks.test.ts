// Key sets over the network: fetched, cached, rotated, out of reach. The issuer is real, the clock is moved by hand.

import { afterEach, beforeEach, expect, test } from 'bun:test';
import { generateKeyPairSync } from 'node:crypto';
import { createLog } from '../../src/start/package/index.ts';
import { createJwks } from '../../src/users/jwks.ts';
import { testClock } from '../support/clock.ts';
import { createIssuer, createKey, type Issuer, JWKS_PATH } from '../support/issuer.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { present } from './refused-token.ts';

const SECOND_MS = 1000;
const MINUTE_MS = 60_000;

let issuer: Issuer;
let app: TestApp;
beforeEach(async () => {
  issuer = await createIssuer();
  app = await createTestApp({ env: { JWT_SECRET: undefined, JWT_JWKS_URL: issuer.jwksUrl, JWT_ISSUER: issuer.url } });
});
afterEach(async () => {
  await app.close();
  await issuer[Symbol.asyncDispose]();
});

/** A token of alice for this app, good for ten hours. */
const tokenFor = (options?: Parameters<Issuer['token']>[1], claims: Record<string, unknown> = {}) =>
  issuer.token({ sub: 'alice', aud: app.url, exp: app.clock.nowMs() / 1000 + 36_000, ...claims }, options);

async function expectUnavailable(token: string): Promise<void> {
  const response = await present(app, token);
  expect(response.body).toMatchObject({ status: 503, code: 'auth_unavailable' });
  expect(response.headers.get('retry-after')).toBe('1');
  expect(response.headers.get('www-authenticate')).toBeNull();
}

test.each(['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'])('a token signed with %s is accepted', async (alg) => {
  issuer.keys = [await createKey(alg, 'only')];
  expect((await present(app, await tokenFor())).status).toBe(200);
});

test('the key set is fetched once for many callers at once, and for many tokens', async () => {
  const tokens = await Promise.all(Array.from({ length: 20 }, (_, n) => tokenFor({}, { sub: `user-${n}` })));
  const responses = await Promise.all(tokens.map((token) => present(app, token)));
  expect(responses.map(({ status }) => status)).toEqual(tokens.map(() => 200));
  expect(issuer.hits(JWKS_PATH)).toBe(1);
});

test.each([
  ['of another kid', 'first', 'second'],
  ['without kid', undefined, undefined],
])('a key %s that came after the last fetch is used at once', async (_, old, kid) => {
  issuer.keys = [await createKey('ES256', old)];
  await present(app, await tokenFor());
  issuer.keys = [await createKey('ES256', kid)];
  expect((await present(app, await tokenFor())).status).toBe(200);
});

test('made-up kids cause one fetch in ten seconds, and keep no known key from being accepted', async () => {
  await present(app, await tokenFor());
  for (let n = 0; n < 20; n += 1) {
    const madeUp = await tokenFor({ header: { kid: `made-up-${n}` } });
    expect((await present(app, madeUp)).body.code).toBe('invalid_token');
  }
  expect(issuer.hits(JWKS_PATH)).toBe(2);
  expect((await present(app, await tokenFor())).status).toBe(200);
  app.clock.advance(10 * SECOND_MS - 1);
  await present(app, await tokenFor({ header: { kid: 'too early' } }));
  expect(issuer.hits(JWKS_PATH)).toBe(2);
  app.clock.advance(1);
  await present(app, await tokenFor({ header: { kid: 'another' } }));
  expect(issuer.hits(JWKS_PATH)).toBe(3);
});

test('a verdict ends when its key is seen to have left the set', async () => {
  const old = await tokenFor();
  expect((await present(app, old)).status).toBe(200);
  issuer.keys = [await createKey('ES256', 'second')];
  expect((await present(app, await tokenFor())).status).toBe(200); // fetched for its unknown kid
  expect((await present(app, old)).body.code).toBe('invalid_token');
});

test('a key that left the set is refused five minutes after the last fetch, whoever asks', async () => {
  const early = await tokenFor();
  await present(app, early);
  app.clock.advance(4 * MINUTE_MS);
  const late = await tokenFor({}, { sub: 'bob' });
  expect((await present(app, late)).status).toBe(200); // a verdict of its own, younger than the set
  issuer.keys = [];
  app.clock.advance(MINUTE_MS - 1);
  expect((await present(app, late)).status).toBe(200);
  app.clock.advance(1);
  expect((await present(app, late)).body.code).toBe('invalid_token');
});

test('a key that left the set while the machine slept verifies nothing afterwards, known token or not', async () => {
  const known = await tokenFor();
  const unseen = await tokenFor({}, { sub: 'bob' });
  expect((await present(app, known)).status).toBe(200);
  issuer.keys = [];
  app.clock.sleep(5 * MINUTE_MS);
  expect((await present(app, unseen)).body.code).toBe('invalid_token');
  expect((await present(app, known)).body.code).toBe('invalid_token');
});

test('a set that was on its way while the machine slept is fetched again', async () => {
  const token = await tokenFor();
  const before = { keys: issuer.keys.map(({ jwk }) => jwk) };
  issuer.overrides.set(JWKS_PATH, () => {
    issuer.overrides.clear();
    issuer.keys = [];
    app.clock.sleep(60 * MINUTE_MS);
    return Response.json(before);
  });
  expect((await present(app, token)).body.code).toBe('invalid_token');
});

test('a wall clock that is set forward costs a fetch, one that is set back prolongs nothing', async () => {
  const token = await tokenFor();
  expect((await present(app, token)).status).toBe(200);
  app.clock.setNow(app.clock.nowMs() + 60 * MINUTE_MS);
  expect([(await present(app, token)).status, issuer.hits(JWKS_PATH)]).toEqual([200, 2]);
  app.clock.setNow(app.clock.nowMs() - 30 * MINUTE_MS);
  expect([(await present(app, token)).status, issuer.hits(JWKS_PATH)]).toEqual([200, 2]);
  issuer.keys = [];
  app.clock.advance(5 * MINUTE_MS);
  expect((await present(app, token)).body.code).toBe('invalid_token');
});

test('an unchanged set that is fetched again keeps the verdicts reached with it', async () => {
  const clock = testClock();
  const set = { keys: [(await createKey()).jwk] };
  let fetched = 0;
  const load = async () => {
    fetched += 1;
    return structuredClone(set);
  };
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const keySet = createJwks({ load, clock, log });
  await keySet.get();
  const first = keySet.current();
  clock.advance(5 * MINUTE_MS);
  await keySet.get();
  expect(fetched).toBe(2);
  expect(keySet.current()).toBe(first);
});

test('a token without kid is tried against every key that fits', async () => {
  issuer.keys = [await createKey('ES256'), await createKey('ES256'), await createKey('RS256')];
  for (const key of issuer.keys) expect((await present(app, await tokenFor({ key }))).status).toBe(200);
  const stranger = await createKey('ES256');
  expect((await present(app, await tokenFor({ key: stranger }))).body.code).toBe('invalid_token');
});

test('of many keys that fit a token without kid, the first eight are tried', async () => {
  issuer.keys = await Promise.all(Array.from({ length: 9 }, () => createKey('ES256')));
  const codes: unknown[] = [];
  for (const key of issuer.keys.slice(7)) codes.push((await present(app, await tokenFor({ key }))).status);
  expect(codes).toEqual([200, 401]);
});

test('a signature that is wrong for a known kid is refused without asking the issuer', async () => {
  await present(app, await tokenFor());
  const impostor = await createKey('ES256', 'first');
  expect((await present(app, await tokenFor({ key: impostor }))).body.code).toBe('invalid_token');
  expect(issuer.hits(JWKS_PATH)).toBe(1);
});

test('useless entries of a key set do not spoil the good ones', async () => {
  const { keys } = issuer;
  const useless = [
    {},
    { kty: 'oct', k: 'c2VjcmV0', kid: 'first' },
    { kty: 'EC', crv: 'P-256', kid: 'broken' },
    { kty: 'new' },
  ];
  issuer.overrides.set(JWKS_PATH, () => Response.json({ keys: [...useless, ...keys.map(({ jwk }) => jwk)] }));
  expect((await present(app, await tokenFor())).status).toBe(200);
  const broken = await tokenFor({ header: { kid: 'broken' } });
  expect((await present(app, broken)).body.code).toBe('invalid_token');
});

test('a key too short to be used does not keep a token without kid from the next one that fits', async () => {
  const good = await createKey('RS256');
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const short = { ...publicKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig' };
  issuer.overrides.set(JWKS_PATH, () => Response.json({ keys: [short, good.jwk] }));
  expect((await present(app, await tokenFor({ key: good }))).status).toBe(200);
  const stranger = await createKey('RS256');
  expect((await present(app, await tokenFor({ key: stranger }))).body.code).toBe('invalid_token');
});

const UNUSABLE: [string, (issuer: Issuer) => Response][] = [
  ['with a redirect to a good one', ({ url }) => Response.redirect(`${url}/good`, 302)],
  ['an error', () => new Response('no', { status: 500 })],
  ['nothing', () => new Response(null, { status: 204 })],
  ['no JSON', () => new Response('<html>')],
  ['null', () => Response.json(null)],
  ['an array', () => Response.json([])],
  ['no keys', () => Response.json({ jwks: [] })],
  ['keys of a wrong type', () => Response.json({ keys: ['a'] })],
  ['a megabyte', () => Response.json({ keys: [], padding: 'x'.repeat(1024 * 1024) })],
];

test.each(UNUSABLE)(
  'a key set address that responds %s is 503, and is asked again a second later',
  async (_, response) => {
    issuer.overrides.set(JWKS_PATH, () => response(issuer));
    const token = await tokenFor();
    await expectUnavailable(token);
    await expectUnavailable(token);
    expect([issuer.hits(JWKS_PATH), issuer.hits('/good')]).toEqual([1, 0]);
    issuer.overrides.clear();
    app.clock.advance(SECOND_MS);
    expect((await present(app, token)).status).toBe(200);
  },
);

test('an endless key set is cut off', async () => {
  let cancelled: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    cancelled = resolve;
  });
  const chunk = new TextEncoder().encode(' '.repeat(16 * 1024));
  issuer.overrides.set(
    JWKS_PATH,
    () => new Response(new ReadableStream({ pull: (controller) => controller.enqueue(chunk), cancel: cancelled })),
  );
  await expectUnavailable(await tokenFor());
  await ended;
});

test('an issuer that never responds is given up after five seconds', async () => {
  const asked = Promise.withResolvers<void>();
  issuer.overrides.set(JWKS_PATH, () => {
    asked.resolve();
    return new Promise(() => {});
  });
  let isGivenUp = false;
  const refused = expectUnavailable(await tokenFor()).then(() => {
    isGivenUp = true;
  });
  await asked.promise;
  app.clock.advance(4999);
  expect((await fetch(`${app.url}/mcp/health`)).status).toBe(200); // a whole request takes longer than giving up would
  expect(isGivenUp).toBe(false);
  app.clock.advance(1);
  await refused;
});

test('an issuer that is away is 503 for new tokens, not for those whose key is known', async () => {
  const known = await tokenFor();
  expect((await present(app, known)).status).toBe(200);
  await issuer[Symbol.asyncDispose]();
  expect((await present(app, known)).status).toBe(200);
  expect((await present(app, await tokenFor({}, { sub: 'bob' }))).status).toBe(200);
  await expectUnavailable(await tokenFor({ header: { kid: 'unknown' } }));
  await expectUnavailable(await tokenFor({ header: { kid: 'unknown' } })); // in the pause, too
  app.clock.advance(5 * MINUTE_MS);
  await expectUnavailable(known);
});

test('an outage is logged once, with its reason, and so is its end', async () => {
  issuer.overrides.set(JWKS_PATH, () => new Response('no', { status: 500 }));
  const token = await tokenFor();
  for (let n = 0; n < 3; n += 1) {
    await present(app, token);
    app.clock.advance(SECOND_MS);
  }
  issuer.overrides.clear();
  await present(app, token);
  const lines = (await app.log()).filter(({ event }) => event.startsWith('key set'));
  expect(lines).toMatchObject([
    { level: 'warn', event: 'key set out of reach', reason: 'the key set answered 500' },
    { level: 'info', event: 'key set back' },
  ]);
  expect(await app.logText()).not.toContain(token);
});
