// User JWTs of an issuer: what they must say, and attacks on their signatures. Those of a secret are in user-jwt.test.ts,
// the key set over the network in jwks.test.ts.

import { describe, expect, test } from 'bun:test';
import { exportSPKI, type JWTPayload } from 'jose';
import { encodePart, handmade } from '../support/handmade-token.ts';
import { createIssuer, createKey, type Issuer, type IssuerKey, JWKS_PATH } from '../support/issuer.ts';
import { shared } from '../support/shared.ts';
import { createTestApp, sharedApp, TEST_SECRET, type TestApp } from '../support/test-app.ts';
import { expectRefused, present } from './refused-token.ts';

const issuer = await shared(createIssuer());
const app = await sharedApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url } });
const first = issuer.keys[0] ?? (await createKey());

const exp = (at: TestApp) => Math.floor(at.clock.nowMs() / 1000) + 3600;
const claims = (changed: JWTPayload = {}) => ({
  sub: 'alice',
  aud: app.url,
  iss: issuer.url,
  exp: exp(app),
  ...changed,
});
const tokenOf = (changed: JWTPayload, options?: Parameters<Issuer['token']>[1]) =>
  issuer.token(claims(changed), options);
const statusOf = async (token: string, at = app) => (await present(at, token)).status;

/** With another key set than `first` alone. */
async function withKeys(keys: readonly IssuerKey[], check: () => Promise<void>): Promise<void> {
  issuer.keys = [...keys];
  app.clock.advance(5 * 60_000); // it is fetched again
  await check();
  issuer.keys = [first];
  app.clock.advance(5 * 60_000);
}

describe('issuer and audience', () => {
  test('the audience is one of this server’s own addresses, or what JWT_AUDIENCE says', async () => {
    const base = { JWT_SECRET: undefined, JWT_ISSUER: issuer.url };
    const own = ['', '/service', '/service/mcp', '/service/sse'].map((path) => `https://keys.example${path}`);
    const foreign = [
      'https://keys.example/service/other',
      'https://keys.example:444',
      'http://keys.example',
      'keys.example',
      [],
      7,
      undefined,
    ];
    for (const [env, good, bad] of [
      [{ PUBLIC_URL: 'https://keys.example/service' }, [...own, [...own, 'https://other.example']], foreign],
      [{ JWT_AUDIENCE: 'keys' }, ['keys'], own],
    ] as const) {
      await using other = await createTestApp({ env: { ...base, ...env } });
      const of = (aud: unknown) => issuer.token({ sub: 'alice', exp: exp(other), aud });
      for (const aud of good) expect([aud, await statusOf(await of(aud), other)]).toEqual([aud, 200]);
      for (const aud of bad) await expectRefused(other, await of(aud));
    }
  });

  test('a token of another issuer is refused even if the key set holds its key', async () => {
    expect(await statusOf(await tokenOf({}))).toBe(200);
    for (const iss of [`${issuer.url}/`, undefined]) await expectRefused(app, await tokenOf({ iss } as JWTPayload));
  });
});

test('what can’t be a token of the issuer is refused without asking for its keys', async () => {
  await using own = await createIssuer();
  await using unasked = await createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: own.url } });
  await expectRefused(unasked, 'hello', 'malformed');
  await expectRefused(unasked, handmade({ alg: 'HS256' }, claims()), 'algorithm not accepted');
  expect(own.hits(JWKS_PATH)).toBe(0);
});

describe('a token of another algorithm is refused', () => {
  test.each([
    'hs256',
    'HS256 ',
    'ＨＳ256',
    'HS1',
    'none',
    'nOnE',
    'none\0',
    '__proto__',
    'dir',
    'A256GCMKW',
    'RSA-OAEP',
  ])('%j', async (alg) => {
    const header = { alg, kid: 'first' };
    const unsigned = `${encodePart(header)}.${encodePart(claims())}.`;
    for (const token of [handmade(header, claims()), unsigned, `${unsigned}AA`]) await expectRefused(app, token);
  });

  test('if alg is given twice, the last one counts, and it is checked', async () => {
    await expectRefused(app, handmade('{"alg":"ES256","alg":"HS256"}', claims()));
  });

  test('HS256 with the public key as the secret, in every form the key has', async () => {
    const key = await createKey('RS256', 'first');
    const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
    const pem = await exportSPKI(await crypto.subtle.importKey('jwk', key.jwk, algorithm, true, ['verify']));
    const n = key.jwk.n ?? '';
    await withKeys([key], async () => {
      for (const secret of [pem, pem.trim(), JSON.stringify(key.jwk), n, Buffer.from(n, 'base64url')])
        for (const alg of ['HS256', 'none'])
          await expectRefused(app, handmade({ alg, kid: 'first' }, claims(), secret), 'algorithm not accepted');
    });
  });

  test('a key is used with its own algorithm only', async () => {
    const rsa = await createKey('PS256', 'rsa');
    const signed = `${encodePart({ alg: 'RS256', kid: 'rsa' })}.${encodePart(claims())}`;
    // The issuer's key, and a signature of another scheme.
    const scheme = { name: 'RSA-PSS', saltLength: 32 };
    const signature = await crypto.subtle.sign(scheme, rsa.privateKey, Buffer.from(signed));
    await withKeys([first, rsa], () => expectRefused(app, `${signed}.${Buffer.from(signature).toString('base64url')}`));
  });
});

describe('a forged signature of an elliptic curve is refused (CVE-2022-21449 and its kin)', () => {
  const signature = (r: Uint8Array, s: Uint8Array) => Buffer.concat([r, s]).toString('base64url');
  const zero = Buffer.alloc(32);
  const one = Buffer.from([...Buffer.alloc(31), 1]);
  const order = Buffer.from('ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551', 'hex');
  test.each([
    ['of zeros', signature(zero, zero)],
    ['of ones', signature(one, one)],
    ['of the order', signature(order, order)],
    ['of nothing', ''],
    ['half as long', zero.toString('base64url')],
    ['in DER', Buffer.from('3006020100020100', 'hex').toString('base64url')],
    ['too long', Buffer.alloc(4096, 1).toString('base64url')],
  ])('%s', async (_, made) => {
    await expectRefused(app, `${encodePart({ alg: 'ES256', kid: 'first' })}.${encodePart(claims())}.${made}`);
  });

  test('a good signature under other claims, cut short, extended or changed', async () => {
    const [header, payload, made = ''] = (await tokenOf({})).split('.');
    for (const token of [
      `${header}.${encodePart(claims({ sub: 'root' }))}.${made}`,
      `${header}.${payload}.${made.slice(0, -4)}`,
      `${header}.${payload}.${made}AAAA`,
      `${header}.${payload}.${made.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'))}`,
    ]) {
      await expectRefused(app, token);
    }
  });
});

describe('keys', () => {
  test('a key that comes with the token is not trusted', async () => {
    await using evil = await createIssuer();
    const key = await createKey('ES256', 'first');
    evil.keys = [key];
    const header = { jwk: key.jwk, jku: evil.jwksUrl, x5u: evil.jwksUrl };
    await expectRefused(app, await tokenOf({}, { key, header }));
    await expectRefused(app, await tokenOf({}, { key, header: { ...header, kid: evil.jwksUrl } }));
    expect(evil.hits(JWKS_PATH)).toBe(0);
  });

  test.each([
    ['../../../dev/null'],
    ["' OR 1=1 --"],
    ['__proto__'],
    ['first\0'],
    [''],
    [7],
    [null],
    [['first']],
    [{ a: 1 }],
  ])('kid %j names no key', async (kid: unknown) => {
    await expectRefused(app, await tokenOf({}, { header: { kid } }));
  });

  test('a shared secret or a key for encryption in a key set is not used', async () => {
    const k = Buffer.from(TEST_SECRET).toString('base64url');
    const secret = { ...first, jwk: { kty: 'oct', k, kid: 'secret', alg: 'HS256' } };
    const [encryption, noOps] = [await createKey('ES256', 'encryption'), await createKey('ES256', 'no-ops')];
    const useless = [
      { ...encryption, jwk: { ...encryption.jwk, use: 'enc' } },
      { ...noOps, jwk: { ...noOps.jwk, key_ops: ['sign'] } },
    ];
    await withKeys([first, secret, ...useless], async () => {
      expect(await statusOf(await tokenOf({}))).toBe(200);
      await expectRefused(app, handmade({ alg: 'HS256', kid: 'secret' }, claims()));
      for (const key of [encryption, noOps]) await expectRefused(app, await tokenOf({}, { key }));
    });
  });
});
