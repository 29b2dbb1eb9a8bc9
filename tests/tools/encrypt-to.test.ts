// encryptTo: a new key that only its recipient can read, and the public keys that are refused.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { callOver, userHeaders } from '../support/client.ts';
import { call, post, postModern } from '../support/mcp.ts';
import { openByHand, openWithJose, openWithPython, PYTHON_WITH_CRYPTOGRAPHY } from '../support/open-jwe.ts';
import { startServer } from '../support/server-process.ts';
import { bearer, createTestApp, TEST_SECRET, type TestApp } from '../support/test-app.ts';

let app: TestApp;
let headers: { authorization: string };
let p256: Pair;
let x25519: Pair;
beforeAll(async () => {
  app = await createTestApp();
  headers = await bearer(app, 'alice');
  [p256, x25519] = await Promise.all([pairOn('P-256'), pairOn('X25519')]);
});
afterAll(() => app.close());

interface Pair {
  readonly publicJwk: JWK;
  readonly privateJwk: JWK;
}

async function pairOn(crv: 'P-256' | 'X25519'): Promise<Pair> {
  const { publicKey, privateKey } = await generateKeyPair('ECDH-ES', { crv, extractable: true });
  return { publicJwk: await exportJWK(publicKey), privateJwk: await exportJWK(privateKey) };
}

const create = (encryptTo: unknown) => app.call('create_api_key', { name: 'n', scopes: ['read'], encryptTo }, headers);
async function count(): Promise<number> {
  app.clock.advance(50); // each list needs its token
  return (await app.call('list_api_keys', {}, headers)).body.keys.length;
}

describe.each([
  ['P-256', () => p256],
  ['X25519', () => x25519],
])('to a key on %s', (_, pair) => {
  test('the key is in a JWE, which jose and OpenSSL open, and nowhere else; it works', async () => {
    const { status, body } = await create(pair().publicJwk);
    expect(status).toBe(200);
    const { encryptedKey, ...rest } = body;
    expect(Object.keys(rest)).toEqual(['id', 'name', 'scopes', 'expiresAt', 'resource', 'warning']);
    const key = await openWithJose(encryptedKey, pair().privateJwk);
    expect(key).toMatch(/^sk_test_[0-9a-f]{64}$/);
    expect(openByHand(encryptedKey, pair().privateJwk)).toBe(key);
    expect((await app.useKey(key)).status).toBe(200);
    expect(JSON.stringify(body)).not.toContain(key.slice(-8));
    expect(await app.logText()).not.toContain(key.slice(-8));
  });

  test.skipIf(PYTHON_WITH_CRYPTOGRAPHY === undefined)('Python opens it', async () => {
    const { body } = await create(pair().publicJwk);
    const { privateJwk } = pair();
    expect(openWithPython(body.encryptedKey, privateJwk)).toBe(await openWithJose(body.encryptedKey, privateJwk));
  });

  test('over MCP no key is in the result', async () => {
    const args = { name: 'n', scopes: ['read'], encryptTo: pair().publicJwk };
    const legacy = await post(app, call('create_api_key', args), headers);
    const modern = await postModern(app, 'tools/call', { name: 'create_api_key', arguments: args }, { headers });
    for (const { body } of [legacy, modern]) {
      const key = await openWithJose(body.result.structuredContent.encryptedKey, pair().privateJwk);
      expect((await app.useKey(key)).status).toBe(200);
      expect(JSON.stringify(body)).not.toContain(key.slice(-8));
    }
  });
});

test('members that say what a public key is for are ignored', async () => {
  const named = { ...p256.publicJwk, kid: 'a', use: 'sig', alg: 'ES256', key_ops: ['verify'], ext: true };
  const { body } = await create(named);
  expect(await openWithJose(body.encryptedKey, p256.privateJwk)).toStartWith('sk_test_');
});

test('on Deno, too, a key can be opened, and a point off the curve or of low order is refused', async () => {
  await using server = await startServer({ runtime: 'deno', env: { JWT_SECRET: TEST_SECRET } });
  const bob = await userHeaders('bob');
  const on = (encryptTo: unknown) => callOver(server.url, 'create_api_key', { name: 'n', scopes: [], encryptTo }, bob);
  for (const { publicJwk, privateJwk } of [p256, x25519]) {
    const { body } = await on(publicJwk);
    expect(openByHand(body.encryptedKey, privateJwk)).toStartWith('sk_test_');
  }
  expect((await on({ ...p256.publicJwk, x: p256.publicJwk.y, y: p256.publicJwk.x })).status).toBe(400);
  for (const u of LOW_ORDER) expect((await on({ ...x25519.publicJwk, x: hex(u) })).status).toBe(400);
});

const hex = (bytes: string) => Buffer.from(bytes, 'hex').toString('base64url');
const FIELD = hex('ffffffff00000001000000000000000000000000ffffffffffffffffffffffff'); // of P-256
/** Points of order 1, 2, 4 and 8, and their other spellings (https://cr.yp.to/ecdh.html#validate). */
const LOW_ORDER = [
  '00'.repeat(32),
  `${'00'.repeat(31)}80`,
  `01${'00'.repeat(31)}`,
  'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
  '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
  `ec${'ff'.repeat(30)}7f`,
  `ed${'ff'.repeat(30)}7f`,
  `ee${'ff'.repeat(30)}7f`,
  `ee${'ff'.repeat(31)}`,
];

describe('is refused, and nothing is made:', () => {
  const flipped = ({ x, y }: JWK) => ({ x, y: `${y?.startsWith('A') ? 'B' : 'A'}${y?.slice(1)}` });
  const REFUSED: [string, () => unknown][] = [
    ['null', () => null],
    ['text', () => JSON.stringify(p256.publicJwk)],
    ['a list', () => [p256.publicJwk]],
    ['an empty object', () => ({})],
    ['a point off the curve', () => ({ ...p256.publicJwk, ...flipped(p256.publicJwk) })],
    ['x and y exchanged', () => ({ ...p256.publicJwk, x: p256.publicJwk.y, y: p256.publicJwk.x })],
    ['the point 0, 0', () => ({ ...p256.publicJwk, x: hex('00'.repeat(32)), y: hex('00'.repeat(32)) })],
    ['a coordinate as large as the field', () => ({ ...p256.publicJwk, x: FIELD })],
    ['no y on P-256', () => ({ ...p256.publicJwk, y: undefined })],
    ['no x', () => ({ ...x25519.publicJwk, x: undefined })],
    ['the curve of another type', () => ({ ...p256.publicJwk, crv: 'X25519' })],
    ['the type of another curve', () => ({ ...p256.publicJwk, kty: 'OKP' })],
    ['P-384', () => ({ ...p256.publicJwk, crv: 'P-384' })],
    ['Ed25519', () => ({ ...x25519.publicJwk, crv: 'Ed25519' })],
    ['RSA', () => ({ kty: 'RSA', n: 'AQAB', e: 'AQAB' })],
    ['31 bytes', () => ({ ...x25519.publicJwk, x: hex('01'.repeat(31)) })],
    ['33 bytes', () => ({ ...x25519.publicJwk, x: hex('01'.repeat(33)) })],
    ['bits left over', () => ({ ...x25519.publicJwk, x: `${x25519.publicJwk.x?.slice(0, 42)}B` })],
    ['padding', () => ({ ...x25519.publicJwk, x: `${x25519.publicJwk.x}=` })],
    ['900,000 characters', () => ({ ...p256.publicJwk, x5c: ['x'.repeat(900_000)] })],
    ['a member more than fits', () => ({ ...p256.publicJwk, kid: 'x'.repeat(4096) })],
    ['50,000 members', () => Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`m${index}`, 0]))],
    ...LOW_ORDER.map((u): [string, () => unknown] => [
      `low order ${u.slice(0, 4)}`,
      () => ({ ...x25519.publicJwk, x: hex(u) }),
    ]),
  ];
  test.each(REFUSED)('%s', async (_, make) => {
    const before = await count();
    const { status, body } = await create(make());
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' });
    expect(body.issues.every(({ path }: { path: string }) => /^encryptTo(\.\w+)?$/.test(path))).toBe(true);
    expect(await count()).toBe(before);
  });

  test('a member nested so deep that no JSON can be made of it', async () => {
    const jwk = JSON.stringify({ ...p256.publicJwk, kid: 'deep' }).replace(
      '"deep"',
      '['.repeat(100_000) + ']'.repeat(100_000),
    );
    const response = await fetch(`${app.url}/tools/create_api_key`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: `{"name":"n","scopes":[],"encryptTo":${jwk}}`,
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      issues: [{ path: 'encryptTo', message: 'Expected values nested at most 1000 deep' }],
    });
  });

  const PRIVATE: [string, () => unknown][] = [
    ['on P-256', () => p256.privateJwk],
    ['on X25519', () => x25519.privateJwk],
    ['of a type that is not taken', () => ({ kty: 'RSA', n: 'AQAB', e: 'AQAB', d: 'secretsecret' })],
    ['that is nothing but secret', () => ({ kty: 'oct', k: 'secretsecret' })],
    ['with an empty d', () => ({ ...p256.publicJwk, d: '' })],
  ];
  test.each(PRIVATE)('a private key %s, which it says has just been sent, without repeating it', async (_, make) => {
    const before = await count();
    const { status, body } = await create(make());
    expect(status).toBe(400);
    const message = 'Expected a public key. A private key has just been sent: do not use it any more';
    expect(body.issues).toContainEqual({ path: 'encryptTo', message });
    const { d, k } = make() as JWK;
    for (const secret of [d, k]) {
      if (secret) expect(JSON.stringify(body) + (await app.logText())).not.toContain(secret);
    }
    expect(await count()).toBe(before);
  });
});

test('any JWK: 200 with a JWE, or 400 that repeats nothing; never anything else', async () => {
  await using own = await createTestApp({ env: { REVOCATION_LAG_MAX_MS: '60000' } });
  const alice = await bearer(own, 'alice');
  const bytes = fc.uint8Array({ minLength: 31, maxLength: 33 }).map((part) => Buffer.from(part).toString('base64url'));
  const coordinate = fc.oneof(bytes, fc.constantFrom(p256.publicJwk.x, p256.publicJwk.y, ''), fc.jsonValue());
  const jwk = fc.record(
    {
      kty: fc.oneof(fc.constantFrom('EC', 'OKP', 'RSA', 'oct'), fc.jsonValue()),
      crv: fc.oneof(fc.constantFrom('P-256', 'X25519', 'P-384'), fc.jsonValue()),
      x: coordinate,
      y: coordinate,
      d: fc.option(bytes, { nil: undefined }),
      more: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  let encrypted = 0;
  await fc.assert(
    fc.asyncProperty(fc.oneof(jwk, fc.jsonValue()), async (encryptTo) => {
      const input = { name: 'n', scopes: [], encryptTo };
      const { status, body } = await own.call('create_api_key', input, alice);
      if (status === 200) {
        expect(JSON.parse(JSON.stringify(encryptTo))).not.toHaveProperty('d'); // as it was sent, without undefined
        expect(body).not.toHaveProperty('key');
        expect(body.encryptedKey.split('.')).toHaveLength(5);
        encrypted += 1;
        await own.call('delete_api_key', { keyId: body.id }, alice);
      } else {
        expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' });
      }
    }),
    { numRuns: 400, examples: [[x25519.publicJwk as fc.JsonValue], [p256.publicJwk as fc.JsonValue]] },
  );
  expect(encrypted).toBeGreaterThanOrEqual(2);
}, 60_000);
