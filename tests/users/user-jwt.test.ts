// User JWTs signed with the shared secret: the rules, and known attacks on them (RFC 8725, and the CVEs behind it), each
// with a token that a naive verifier accepts. An issuer's are in issuer-token.test.ts.

import { describe, expect, test } from 'bun:test';
import { generateKeyPairSync } from 'node:crypto';
import { SignJWT } from 'jose';
import { encodePart, handmade } from '../support/handmade-token.ts';
import { sendOverSocket } from '../support/http-socket.ts';
import { createTestApp, type Env, sharedApp, TEST_SECRET } from '../support/test-app.ts';
import { expectRefused, present } from './refused-token.ts';

const app = await sharedApp();

const HS256 = { alg: 'HS256', typ: 'JWT' };
const SECRET = new TextEncoder().encode(TEST_SECRET);
const OTHER_SECRET = 'another secret of more than 32 bytes';

const nowS = (at = app) => Math.floor(at.clock.nowMs() / 1000);
const claims = (changed: object = {}) => ({ sub: 'alice', exp: nowS() + 3600, ...changed });

/** A token that is good but for what was changed; undefined leaves a claim out. */
const token = (changed: object = {}, header: object = {}, secret?: string) =>
  handmade({ ...HS256, ...header }, claims(changed), secret);
/** With claims as they are written. */
const written = (payload: unknown) => handmade(HS256, payload);

const statusOf = async (sent: string, at = app) => (await present(at, sent)).status;

type Made = () => string | Promise<string>;
const refused = (what: string, rows: readonly (readonly [string, Made])[]) =>
  test.each([...rows])(`a token with ${what} is refused: %s`, async (_, make) => expectRefused(app, await make()));
/** The same, by what a row is made of. */
const refusedEach = (what: string, values: readonly unknown[], make: (value: never) => string) =>
  refused(
    what,
    values.map((value) => [JSON.stringify(value).slice(0, 60), () => make(value as never)]),
  );

test.each<[string, Made]>([
  ['nothing changed', () => token()],
  ['issuer and audience, where none is configured', () => token({ iss: 'x', aud: 'y' })],
  ['12,000 characters', () => token({ padding: 'x'.repeat(8500) })],
  [
    'claims that are nested deep',
    () => written(`{"sub":"alice","exp":${nowS() + 60},"x":${'['.repeat(3000)}${']'.repeat(3000)}}`),
  ],
  ['wide claims', () => token({ x: Array.from({ length: 3000 }, (_, index) => index % 10) })],
  ['a huge header', () => token({}, { x: 'x'.repeat(9000) })],
  ['sub of 1 character', () => token({ sub: 'a' })],
  ['sub of 255 characters', () => token({ sub: 'a'.repeat(255) })],
  ['sub of 255 emoji', () => token({ sub: '😀'.repeat(255) })],
  ['sub with spaces', () => token({ sub: ' a b ' })],
  ['a prototype’s name as sub', () => token({ sub: '__proto__' })],
  ['sub in UTF-8', () => written(Buffer.from(JSON.stringify(claims({ sub: 'Z\xc3\xbcrich' })), 'latin1'))],
])('a token with %s is accepted', async (_, make) => {
  expect(await statusOf(await make())).toBe(200);
});

describe('a token is refused for its signature', () => {
  refusedEach(
    'another secret',
    [
      OTHER_SECRET,
      '',
      ' ',
      '\0',
      'secret',
      'null',
      'undefined',
      'JWT_SECRET',
      TEST_SECRET.slice(0, -1),
      `${TEST_SECRET} `,
    ],
    (secret) => token({}, {}, secret),
  );

  refused('a signature that is not its own', [
    ['of other claims', () => token().replace(/\.[^.]*\./, `.${encodePart(claims({ sub: 'root' }))}.`)],
    ['none', () => token().replace(/\.[^.]*$/, '.')],
    [
      'of a key of the sender',
      () =>
        new SignJWT(claims())
          .setProtectedHeader({ alg: 'RS256' })
          .sign(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey),
    ],
  ]);

  refusedEach('no signature, as its header says', ['none', 'None', 'NONE', ''], (alg) =>
    token({}, { alg }).replace(/\.[^.]*$/, '.'),
  );

  refused(
    'another algorithm, though with the right secret',
    ['HS384', 'HS512'].map((alg) => [alg, () => new SignJWT(claims()).setProtectedHeader({ alg }).sign(SECRET)]),
  );

  refusedEach(
    'another algorithm',
    [
      'hs256',
      'HS256 ',
      'HS256\0',
      'ＨＳ256',
      'HS1',
      'MD5',
      'nOnE',
      'none\0',
      '__proto__',
      'constructor',
      'dir',
      'A256GCMKW',
      'RSA-OAEP',
      ['HS256'],
    ],
    (alg) => token({}, { alg }),
  );

  refused('an odd header', [
    ['no alg', () => token({}, { alg: undefined })],
    ['alg twice, of which the last counts', () => handmade('{"alg":"HS256","alg":"none"}', claims())],
    ['a text', () => handmade('"HS256"', claims())],
    ['no JSON', () => handmade('{', claims())],
    ['an empty crit', () => token({}, { crit: [] })],
    ['an unencoded payload', () => token({}, { crit: ['b64'], b64: false })],
    [
      'what it demands to be understood',
      () => {
        const name = 'http://example.com/x';
        const header = { alg: 'HS256', crit: [name], [name]: true };
        return new SignJWT(claims()).setProtectedHeader(header).sign(SECRET, { crit: { [name]: true } });
      },
    ],
  ]);

  test('headers that bring keys, or point to them, are ignored: the secret decides', async () => {
    const evil = 'a secret of the sender, 32 bytes long';
    const pointing = {
      jwk: { kty: 'oct', k: encodePart(evil) },
      jku: 'http://127.0.0.1:1/',
      x5u: 'http://127.0.0.1:1/',
      kid: '../../etc/passwd',
      zip: 'DEF',
    };
    expect(await statusOf(token({}, pointing))).toBe(200);
    expect(await statusOf(token({}, pointing, evil))).toBe(401);
  });
});

describe('a token is refused for its form', () => {
  refusedEach('no parts of a token', ['x', 'a.b.c', '..', 'eyJ.eyJ.x', 'a b', 'é', 'undefined'], encodeURI);

  refused('other parts', [
    ['two', () => token().replace(/\.[^.]*$/, '')],
    ['four', () => `${token()}.e30`],
    ['five, as an encrypted token has', () => 'e30.e30.e30.e30.e30'],
    ['an API key', () => `sk_test_${'0'.repeat(64)}`],
    ['a text as long as a header may be', () => 'a'.repeat(15_000)],
    ['a token in a token', () => handmade({ alg: 'HS256', cty: 'JWT' }, token())],
    [
      'compressed',
      () =>
        handmade(
          { alg: 'HS256', zip: 'DEF' },
          Buffer.from(Bun.deflateSync(JSON.stringify(claims()))).toString('latin1'),
        ),
    ],
    ['claims that are no object: []', () => written('[]')],
    ['claims that are no object: null', () => written('null')],
    ['claims that are no object: text', () => written('"alice"')],
    ['no claims', () => written('')],
    ['claims that are no JSON', () => written('x')],
  ]);

  refusedEach(
    'base64 instead of base64url, padding, spaces or line ends',
    ['$&=', '$&==', '$&.', '.$&', '$1. $2.$3', '$1.$2==.$3', '$1\t.$2\t.$3', '$1+.$2.$3', '$&%3D'],
    (form) => token().replace(/^(.*)\.(.*)\.(.*)$/, form),
  );

  test('the JSON forms of a signed token, and one too long for a header, are refused', async () => {
    const [header, payload, signature] = token().split('.');
    await expectRefused(app, JSON.stringify({ payload, protected: header, signature }));
    await expectRefused(app, JSON.stringify({ payload, signatures: [{ protected: header, signature }] }));
    expect(await statusOf(token({ padding: 'x'.repeat(60_000) }))).toBeOneOf([401, 431]);
  });

  test('of two Authorization headers neither is chosen', async () => {
    const [good, bad] = [token(), token({}, {}, 'x')];
    for (const both of [
      [good, bad],
      [bad, good],
      [good, good],
    ]) {
      const lines = both.map((sent) => `Authorization: Bearer ${sent}\r\n`).join('');
      const head = `POST /tools/list_api_keys HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n`;
      const { status, body } = await sendOverSocket(app.url, head);
      expect({ status, code: JSON.parse(body).code }).toEqual({ status: 401, code: 'invalid_token' });
    }
  });
});

describe('times', () => {
  refusedEach(
    'an exp that is none',
    [undefined, '9999999999', '1e10', null, {}, [9_999_999_999], true].map((exp) => ({ exp })),
    (changed) => token(changed),
  );

  refused('odd times', [
    ['exp under a name that looks like it', () => written(`{"sub":"alice","еxp":${nowS() + 60}}`)],
    ['exp inherited', () => written(`{"sub":"alice","__proto__":{"exp":${nowS() + 60}}}`)],
    ['nbf as text', () => token({ nbf: '0' })],
    ['nbf null', () => token({ nbf: null })],
    ['nbf in a century', () => token({ exp: 99_999_999_999, nbf: nowS() + 3_155_760_000 })],
    ['nbf beyond every number', () => written('{"sub":"alice","exp":99999999999,"nbf":1e999}')],
  ]);

  test('a token is accepted to the last millisecond of the 5 s tolerance after exp, known or not, and refused from then on', async () => {
    await using own = await createTestApp();
    const exp = nowS(own) + 10;
    const known = written({ sub: 'alice', exp });
    for (const [atMs, expected] of [
      [exp * 1000 - 1, 200],
      [exp * 1000, 200],
      [exp * 1000 + 4999, 200],
      [exp * 1000 + 5000, 401],
    ] as const) {
      own.clock.setNow(atMs);
      const seenNow = written({ sub: 'alice', exp, jti: atMs });
      expect({ atMs, statuses: [await statusOf(known, own), await statusOf(seenNow, own)] }).toEqual({
        atMs,
        statuses: [expected, expected],
      });
    }
  });

  test('a token that was good says that it has expired, and any other does not', async () => {
    const exp = nowS() - 60;
    const expired = { code: 'invalid_token', detail: 'The user token has expired' };
    for (const old of [exp, 0, -1]) expect((await present(app, token({ exp: old }))).body).toMatchObject(expired);
    await expectRefused(app, token({ exp }, {}, OTHER_SECRET));
    expect((await present(app, token({ exp, sub: '' }))).body.code).toBe('invalid_token');
  });

  test('a token is accepted from nbf less its tolerance on, and refused before', async () => {
    const nbf = nowS() + 5;
    expect([await statusOf(token({ nbf })), await statusOf(token({ nbf: nbf + 1 }))]).toEqual([200, 401]);
  });

  test('when a claim is given twice, the last one counts (RFC 7519 section 4)', async () => {
    const exp = nowS() + 60;
    await app.createKey('bob');
    expect((await present(app, written(`{"sub":"alice","sub":"bob","exp":1,"exp":${exp}}`))).body.keys).toHaveLength(1);
    const expired = await present(app, written(`{"sub":"alice","exp":${exp},"exp":1}`));
    expect(expired.body.detail).toBe('The user token has expired');
  });
});

describe('sub', () => {
  refusedEach(
    'a sub that is none',
    [
      undefined,
      '',
      'a'.repeat(256),
      '😀'.repeat(256),
      'bob\0x',
      'bob\n',
      'bob\x7f',
      'bob\u0085',
      'bob\ud800',
      1,
      null,
      ['bob'],
      { toString: 'bob' },
    ].map((sub) => ({ sub })),
    (changed) => token(changed),
  );

  // Two owners would become one.
  refusedEach('a sub that is not UTF-8', ['bob\xff', 'Z\xfcrich', 'Z\xfdrich', '\xf0\x9f\x98'], (sub) =>
    written(Buffer.from(JSON.stringify(claims({ sub })), 'latin1')),
  );
});

test.each<[string, object, string]>([
  ['exp', { exp: undefined }, 'missing required "exp" claim'],
  ['nbf', { nbf: 99_999_999_999 }, '"nbf" claim timestamp check failed'],
  ['sub', { sub: 'bob\0x' }, 'sub must be 1 to 255 characters without controls'],
])('the log says what is wrong with %s', async (_, changed, reason) => {
  await expectRefused(app, token(changed), reason);
});

test.each<[string, Env, readonly object[], readonly object[]]>([
  [
    'issuer',
    { JWT_ISSUER: 'https://id.example' },
    [{ iss: 'https://id.example' }],
    [{ iss: 'https://id.example/' }, { iss: 'https://evil.example' }, {}, { iss: 1 }],
  ],
  [
    'audience',
    { JWT_AUDIENCE: 'keys' },
    [{ aud: 'keys' }, { aud: ['x', 'keys'] }],
    [{ aud: 'Keys' }, { aud: 'keys/' }, { aud: ['x'] }, { aud: [] }, {}],
  ],
])('a configured %s must be there and equal', async (_, env, good, bad) => {
  await using own = await createTestApp({ env });
  for (const changed of good) expect(await statusOf(token(changed), own)).toBe(200);
  for (const changed of bad) await expectRefused(own, token(changed));
});

test('with another JWT_SECRET tokens of the old one are refused, unless it is the previous one; every key goes on working', async () => {
  const before = await createTestApp({ store: 'embedded' });
  const old = await before.token('alice');
  const { key } = await before.createKey('alice');
  await before.close();
  for (const [more, status] of [
    [{}, 401],
    [{ JWT_SECRET_PREVIOUS: TEST_SECRET }, 200],
  ] as const) {
    const env = { JWT_SECRET: OTHER_SECRET, ...more };
    await using after = await createTestApp({ store: 'embedded', folder: before.folder, env });
    const own = handmade(HS256, claims(), OTHER_SECRET);
    expect([await statusOf(old, after), await statusOf(own, after)]).toEqual([status, 200]);
    expect((await after.useKey(key)).status).toBe(200);
  }
});
