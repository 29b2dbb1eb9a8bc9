// User JWTs signed with the shared secret. An issuer's are in issuer-token.test.ts.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { generateKeyPairSync } from 'node:crypto';
import { SignJWT } from 'jose';
import { encodePart, handmade } from '../support/handmade-token.ts';
import { createTestApp, TEST_SECRET, type TestApp } from '../support/test-app.ts';

let app: TestApp;
beforeAll(async () => {
  app = await createTestApp();
});
afterAll(() => app.close());

const nowS = (at = app) => Math.floor(at.clock.nowMs() / 1000);
const claims = () => ({ sub: 'alice', exp: nowS() + 60 });

/** Signed and with claims as given: nothing is filled in. */
const signed = (payload: Record<string, unknown>, header: Record<string, unknown> = {}, secret = TEST_SECRET) =>
  new SignJWT(payload)
    .setProtectedHeader({ alg: 'HS256', ...header } as { alg: string })
    .sign(new TextEncoder().encode(secret));

async function outcome(token: string, at = app): Promise<string | number> {
  const { status, body } = await at.call('list_api_keys', {}, { authorization: `Bearer ${token}` });
  return status === 200 ? 200 : body.code;
}

test('a good token is accepted', async () => {
  expect(await outcome(await signed(claims()))).toBe(200);
});

test('a refusal has the one sentence for all reasons, and a challenge', async () => {
  const { status, headers, body } = await app.call('list_api_keys', {}, { authorization: 'Bearer x' });
  expect({ status, code: body.code, detail: body.detail }).toEqual({
    status: 401,
    code: 'invalid_token',
    detail: 'Invalid or expired user token',
  });
  expect(headers.get('www-authenticate')).toStartWith('Bearer error="invalid_token"');
});

describe('a token is refused for its signature', () => {
  test('a token signed with another secret is refused', async () => {
    expect(await outcome(await signed(claims(), {}, 'another secret of more than 32 bytes'))).toBe('invalid_token');
  });

  test('an unsigned token is refused', async () => {
    for (const alg of ['none', 'None', 'NONE', '']) {
      const unsigned = `${encodePart({ alg, typ: 'JWT' })}.${encodePart(claims())}.`;
      expect(await outcome(unsigned)).toBe('invalid_token');
    }
  });

  test('a token whose claim was changed after signing is refused', async () => {
    const [head, , signature] = (await signed(claims())).split('.');
    expect(await outcome(`${head}.${encodePart({ ...claims(), sub: 'root' })}.${signature}`)).toBe('invalid_token');
  });

  test.each(['HS384', 'HS512'])('%s, though with the right secret', async (alg) => {
    expect(await outcome(await signed(claims(), { alg }))).toBe('invalid_token');
  });

  test('a token signed with RS256 by a key of the sender is refused', async () => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const token = await new SignJWT(claims()).setProtectedHeader({ alg: 'RS256' }).sign(privateKey);
    expect(await outcome(token)).toBe('invalid_token');
  });

  test('a token with an unknown critical header is refused', async () => {
    const token = await new SignJWT(claims())
      .setProtectedHeader({ alg: 'HS256', crit: ['http://example.com/x'], 'http://example.com/x': true })
      .sign(new TextEncoder().encode(TEST_SECRET), { crit: { 'http://example.com/x': true } });
    expect(await outcome(token)).toBe('invalid_token');
  });

  test.each(['x', 'a.b.c', '..', 'eyJ.eyJ.x', 'a b', 'é', 'undefined'])('no token at all: %p', async (text) => {
    expect(await outcome(encodeURI(text))).toBe('invalid_token');
  });

  test('a bearer text as long as a header may be is refused', async () => {
    expect(await outcome('a'.repeat(15_000))).toBe('invalid_token');
  });

  test('a token with padding or a space in it gets no 500', async () => {
    const token = await signed(claims());
    const [head, payload, signature] = token.split('.');
    for (const odd of [`${token}=`, `${head}.${payload}==.${signature}`, `${head}. ${payload}.${signature}`]) {
      expect(await outcome(odd)).toBe('invalid_token');
    }
  });
});

describe('exp', () => {
  test('missing is refused', async () => {
    expect(await outcome(await signed({ sub: 'alice' }))).toBe('invalid_token');
  });

  test.each([
    ['a string', '9999999999'],
    ['null', null],
    ['an object', {}],
  ])('%s is refused', async (_what, exp) => {
    expect(await outcome(await signed({ sub: 'alice', exp }))).toBe('invalid_token');
  });

  test('a token is accepted to the last millisecond of the 5 s tolerance after exp, and refused from then on', async () => {
    await using own = await createTestApp();
    const exp = nowS(own) + 10;
    const token = await signed({ sub: 'alice', exp });
    for (const [atMs, expected] of [
      [exp * 1000 - 1, 200],
      [exp * 1000, 200],
      [exp * 1000 + 4999, 200],
      [exp * 1000 + 5000, 'invalid_token'],
    ] as const) {
      own.clock.setNow(atMs);
      expect({ atMs, outcome: await outcome(token, own) }).toEqual({ atMs, outcome: expected });
    }
  });

  test('a token that was good says that it has expired, and any other does not', async () => {
    const said = async (token: string) =>
      (await app.call('list_api_keys', {}, { authorization: `Bearer ${token}` })).body;
    const old = { sub: 'alice', exp: nowS() - 60 };
    expect(await said(await signed(old))).toMatchObject({
      code: 'invalid_token',
      detail: 'The user token has expired',
    });
    const detail = 'Invalid or expired user token';
    expect(await said(await signed(old, {}, 'another secret of more than 32 bytes'))).toMatchObject({ detail });
    expect(await said(await signed({ ...old, sub: '' }))).toMatchObject({ code: 'invalid_token' });
  });

  test('a verdict kept from before exp does not outlive exp and its tolerance', async () => {
    await using own = await createTestApp();
    const token = await signed({ sub: 'alice', exp: nowS(own) + 60 });
    expect(await outcome(token, own)).toBe(200); // kept from here on
    own.clock.advance(64_999);
    expect(await outcome(token, own)).toBe(200);
    own.clock.advance(1);
    expect(await outcome(token, own)).toBe('invalid_token');
  });

  test('a token is accepted from nbf less its tolerance on, and refused before', async () => {
    const nbf = nowS() + 5;
    expect(await outcome(await signed({ ...claims(), nbf }))).toBe(200);
    expect(await outcome(await signed({ ...claims(), nbf: nbf + 1 }))).toBe('invalid_token');
  });
});

describe('sub', () => {
  test.each([
    ['1 character', 'a'],
    ['255 characters', 'a'.repeat(255)],
    ['255 emoji are 255', '😀'.repeat(255)],
    ['spaces', ' a b '],
    ['prototype name', '__proto__'],
  ])('%s is accepted', async (_what, sub) => {
    expect(await outcome(await signed({ ...claims(), sub }))).toBe(200);
  });

  test.each([
    ['empty', ''],
    ['256 characters', 'a'.repeat(256)],
    ['256 emoji', '😀'.repeat(256)],
    ['NUL', 'bob\0x'],
    ['newline', 'bob\n'],
    ['DEL', 'bob\x7f'],
    ['C1 control', 'bob\u0085'],
    ['a number', 1],
    ['null', null],
    ['a list', ['bob']],
    ['an object', { toString: 'bob' }],
  ])('%s is refused', async (_what, sub) => {
    expect(await outcome(await signed({ ...claims(), sub }))).toBe('invalid_token');
  });

  test('missing is refused', async () => {
    expect(await outcome(handmade({ alg: 'HS256' }, { exp: nowS() + 60 }))).toBe('invalid_token');
  });

  test('a lone surrogate, escaped, is refused', async () => {
    const payload = `{"sub":"bob\\ud800","exp":${nowS() + 60}}`;
    expect(await outcome(handmade({ alg: 'HS256' }, payload))).toBe('invalid_token');
  });

  test('bytes that are not UTF-8 are refused', async () => {
    const payload = Buffer.concat([
      Buffer.from('{"sub":"bob'),
      Buffer.of(0xff),
      Buffer.from(`","exp":${nowS() + 60}}`),
    ]);
    expect(await outcome(handmade({ alg: 'HS256' }, payload))).toBe('invalid_token');
  });

  test('claims that are no object are refused', async () => {
    for (const payload of ['[]', 'null', '"alice"', '', 'x']) {
      expect(await outcome(handmade({ alg: 'HS256' }, payload))).toBe('invalid_token');
    }
  });
});

describe('issuer and audience', () => {
  test('without JWT_ISSUER and JWT_AUDIENCE neither claim is checked', async () => {
    expect(await outcome(await signed({ ...claims(), iss: 'x', aud: 'y' }))).toBe(200);
  });

  test('a configured issuer must be there and equal', async () => {
    await using own = await createTestApp({ env: { JWT_ISSUER: 'https://id.example' } });
    expect(await outcome(await signed({ ...claims(), iss: 'https://id.example' }), own)).toBe(200);
    for (const iss of ['https://id.example/', 'https://evil.example', undefined, 1]) {
      expect(await outcome(await signed({ ...claims(), iss }), own)).toBe('invalid_token');
    }
  });

  test('a configured audience must be among those of the token', async () => {
    await using own = await createTestApp({ env: { JWT_AUDIENCE: 'keys' } });
    expect(await outcome(await signed({ ...claims(), aud: 'keys' }), own)).toBe(200);
    expect(await outcome(await signed({ ...claims(), aud: ['x', 'keys'] }), own)).toBe(200);
    for (const aud of ['Keys', 'keys/', ['x'], [], undefined]) {
      expect(await outcome(await signed({ ...claims(), aud }), own)).toBe('invalid_token');
    }
  });
});
