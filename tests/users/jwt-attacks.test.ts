// Known attacks on JWTs (RFC 8725, and the CVEs behind it), beside the rules in user-jwt.test.ts and
// issuer-token.test.ts. Each uses a token that a naive verifier accepts.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { encodePart, handmade } from '../support/handmade-token.ts';
import { sendOverSocket } from '../support/http-socket.ts';
import { createIssuer, createKey, type Issuer } from '../support/issuer.ts';
import { createTestApp, TEST_SECRET, type TestApp } from '../support/test-app.ts';

let issuer: Issuer;
let bySecret: TestApp;
let byKeySet: TestApp;
beforeAll(async () => {
  issuer = await createIssuer();
  bySecret = await createTestApp();
  byKeySet = await createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url } });
});
afterAll(async () => {
  await bySecret.close();
  await byKeySet.close();
  await issuer[Symbol.asyncDispose]();
});

const claims = (app: TestApp, more: Record<string, unknown> = {}) => ({
  sub: 'alice',
  aud: app.url,
  iss: issuer.url,
  exp: Math.floor(app.clock.nowMs() / 1000) + 3600,
  ...more,
});

async function outcome(app: TestApp, token: string): Promise<string> {
  const { status, body } = await app.call('list_api_keys', {}, { authorization: `Bearer ${token}` });
  return status === 200 ? 'ok' : body.code;
}

test('the tokens that the attacks are made from are accepted while nothing is wrong with them', async () => {
  expect(await outcome(bySecret, handmade({ alg: 'HS256' }, claims(bySecret)))).toBe('ok');
  expect(await outcome(byKeySet, await issuer.token(claims(byKeySet)))).toBe('ok');
});

describe('a token signed with a weak secret is refused', () => {
  test.each(['', ' ', '\0', 'secret', 'null', 'undefined', 'JWT_SECRET', TEST_SECRET.slice(0, -1), `${TEST_SECRET} `])(
    '%j',
    async (secret) => {
      expect(await outcome(bySecret, handmade({ alg: 'HS256' }, claims(bySecret), secret))).toBe('invalid_token');
    },
  );
});

describe('a token of another algorithm is refused', () => {
  test.each([
    'hs256',
    'HS256 ',
    'HS256\0',
    'ＨＳ256',
    'HS1',
    'MD5',
    'nOnE',
    'none\0',
    '__proto__',
    'dir',
    'A256GCMKW',
    'RSA-OAEP',
  ])('%j', async (alg) => {
    expect(await outcome(bySecret, handmade({ alg }, claims(bySecret)))).toBe('invalid_token');
    expect(await outcome(byKeySet, handmade({ alg, kid: 'first' }, claims(byKeySet)))).toBe('invalid_token');
    const unsigned = `${encodePart({ alg, kid: 'first' })}.${encodePart(claims(byKeySet))}.`;
    expect(await outcome(byKeySet, unsigned)).toBe('invalid_token');
    expect(await outcome(byKeySet, `${unsigned}AA`)).toBe('invalid_token');
  });

  test('if alg is given twice, the last one counts, and it is checked', async () => {
    expect(await outcome(bySecret, handmade('{"alg":"HS256","alg":"none"}', claims(bySecret)))).toBe('invalid_token');
    expect(await outcome(byKeySet, handmade('{"alg":"ES256","alg":"HS256"}', claims(byKeySet)))).toBe('invalid_token');
  });

  test('a key is used with its own algorithm only', async () => {
    const [key] = issuer.keys;
    const rsa = await createKey('PS256', 'rsa');
    issuer.keys = [...issuer.keys, rsa];
    const header = encodePart({ alg: 'RS256', kid: 'rsa' });
    const signed = `${header}.${encodePart(claims(byKeySet))}`;
    // The issuer's key, and a signature of another scheme.
    const signature = await crypto.subtle.sign(
      { name: 'RSA-PSS', saltLength: 32 },
      rsa.privateKey,
      Buffer.from(signed),
    );
    expect(await outcome(byKeySet, `${signed}.${Buffer.from(signature).toString('base64url')}`)).toBe('invalid_token');
    issuer.keys = key === undefined ? [] : [key];
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
  ])('%s', async (_what, made) => {
    const header = encodePart({ alg: 'ES256', kid: 'first' });
    expect(await outcome(byKeySet, `${header}.${encodePart(claims(byKeySet))}.${made}`)).toBe('invalid_token');
  });

  test('a good signature is refused under other claims, cut short or extended', async () => {
    const good = await issuer.token(claims(byKeySet));
    const [header, payload, made] = good.split('.');
    const changed = encodePart({ ...claims(byKeySet), sub: 'root' });
    for (const token of [
      `${header}.${changed}.${made}`,
      `${header}.${payload}.${made?.slice(0, -4)}`,
      `${header}.${payload}.${made}AAAA`,
      `${header}.${payload}.${made?.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'))}`,
    ]) {
      expect(await outcome(byKeySet, token)).toBe('invalid_token');
    }
  });
});

describe('a token with odd times is refused', () => {
  const now = () => Math.floor(bySecret.clock.nowMs() / 1000);
  test.each([
    ['exp as text', () => `"exp":"${now() + 60}"`],
    ['exp as text with an exponent', () => '"exp":"1e10"'],
    ['exp in a list', () => `"exp":[${now() + 60}]`],
    ['exp true', () => '"exp":true'],
    ['exp negative', () => '"exp":-1'],
    ['exp zero', () => '"exp":0'],
    ['exp under a name that looks like it', () => `"еxp":${now() + 60}`],
    ['exp inherited', () => `"__proto__":{"exp":${now() + 60}}`],
    ['nbf as text', () => `"exp":${now() + 60},"nbf":"0"`],
    ['nbf null', () => `"exp":${now() + 60},"nbf":null`],
    ['nbf in a century', () => `"exp":99999999999,"nbf":${now() + 3_155_760_000}`],
    ['nbf beyond every number', () => '"exp":99999999999,"nbf":1e999'],
  ])('%s', async (_what, times) => {
    expect(await outcome(bySecret, handmade({ alg: 'HS256' }, `{"sub":"alice",${times()}}`))).toBe('invalid_token');
  });
});

describe('other forms', () => {
  test('a token in a token is not unwrapped', async () => {
    const inner = handmade({ alg: 'HS256' }, claims(bySecret));
    expect(await outcome(bySecret, handmade({ alg: 'HS256', cty: 'JWT' }, inner))).toBe('invalid_token');
  });

  test('a compressed payload is not unpacked', async () => {
    const packed = Buffer.from(Bun.deflateSync(JSON.stringify(claims(bySecret)))).toString('latin1');
    expect(await outcome(bySecret, handmade({ alg: 'HS256', zip: 'DEF' }, packed))).toBe('invalid_token');
  });

  test('the JSON form of a signed token is refused', async () => {
    const [header, payload, signature] = handmade({ alg: 'HS256' }, claims(bySecret)).split('.');
    expect(await outcome(bySecret, JSON.stringify({ payload, protected: header, signature }))).toBe('invalid_token');
    const general = { payload, signatures: [{ protected: header, signature }] };
    expect(await outcome(bySecret, JSON.stringify(general))).toBe('invalid_token');
  });

  test('a token in base64 instead of base64url, with padding or line ends is refused', async () => {
    const good = handmade({ alg: 'HS256' }, claims(bySecret));
    for (const token of [
      `${good}==`,
      good.replaceAll('.', '\t.'),
      `${good}.`,
      `.${good}`,
      good.replace('.', '+.'),
      `${good}%3D`,
    ]) {
      expect(await outcome(bySecret, token)).toBe('invalid_token');
    }
  });

  test('of two Authorization headers neither is chosen', async () => {
    const good = handmade({ alg: 'HS256' }, claims(bySecret));
    const bad = handmade({ alg: 'HS256' }, claims(bySecret), 'x');
    for (const [first, second] of [
      [good, bad],
      [bad, good],
      [good, good],
    ]) {
      const head = `POST /tools/list_api_keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${first}\r\nAuthorization: Bearer ${second}\r\n\r\n`;
      const { status, body } = await sendOverSocket(bySecret.url, head);
      expect({ status, code: JSON.parse(body).code }).toEqual({ status: 401, code: 'invalid_token' });
    }
  });

  test('claims nested deep, wide or huge get a response and do no harm', async () => {
    const deep = `{"sub":"alice","exp":${claims(bySecret).exp},"x":${'['.repeat(3000)}${']'.repeat(3000)}}`;
    expect(await outcome(bySecret, handmade({ alg: 'HS256' }, deep))).toBe('ok');
    const wide = { ...claims(bySecret), x: Array.from({ length: 3000 }, (_, index) => index % 10) };
    expect(await outcome(bySecret, handmade({ alg: 'HS256' }, wide))).toBe('ok');
    const header = { alg: 'HS256', x: 'x'.repeat(9000) };
    expect(await outcome(bySecret, handmade(header, claims(bySecret)))).toBe('ok');
  });
});

describe('a key set that holds what it should not', () => {
  test('a shared secret or a key for encryption in a key set is not used', async () => {
    await using evil = await createIssuer();
    await using app = await createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: evil.url } });
    const [own] = evil.keys;
    if (own === undefined) throw new Error('an issuer has a key');
    const k = Buffer.from(TEST_SECRET).toString('base64url');
    const secret = { ...own, jwk: { kty: 'oct', k, kid: 'secret', alg: 'HS256' } };
    const encryption = await createKey('ES256', 'encryption');
    const noOps = await createKey('ES256', 'no-ops');
    evil.keys = [
      own,
      secret,
      { ...encryption, jwk: { ...encryption.jwk, use: 'enc' } },
      { ...noOps, jwk: { ...noOps.jwk, key_ops: ['sign'] } },
    ];
    const payload = { ...claims(app), iss: evil.url };
    expect(await outcome(app, await evil.token(payload))).toBe('ok');
    expect(await outcome(app, handmade({ alg: 'HS256', kid: 'secret' }, payload))).toBe('invalid_token');
    for (const key of [encryption, noOps])
      expect(await outcome(app, await evil.token(payload, { key }))).toBe('invalid_token');
  });
});

test('claims that are not UTF-8 are refused: two owners would become one', async () => {
  const payload = (bytes: string) =>
    Buffer.from(JSON.stringify(claims(bySecret, { sub: 'SUB' })).replace('SUB', bytes), 'latin1');
  expect(await outcome(bySecret, handmade({ alg: 'HS256' }, payload('Z\xc3\xbcrich')))).toBe('ok');
  for (const sub of ['Z\xfcrich', 'Z\xfdrich', '\xf0\x9f\x98']) {
    expect(await outcome(bySecret, handmade({ alg: 'HS256' }, payload(sub)))).toBe('invalid_token');
  }
});
