// `mcp-key-server/verifier` against real servers behind one address: what it asks, what it lets in from memory, and that
// a key that has ended at one server is refused within the bound.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { verifyBearerToken } from '@modelcontextprotocol/server';
import { createVerifier, type Verifier, type VerifierOptions } from '../../../src/doors/services/verifier.ts';
import {
  decided,
  ENDINGS,
  lastYesAfter,
  lateEndings,
  type MadeKey,
  remembered,
  type Servers,
  startServers,
} from '../../support/checked-service.ts';
import { callOver } from '../../support/client.ts';
import { run } from '../../support/command.ts';
import { ROOT } from '../../support/documents.ts';
import { everything, rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { waitFor } from '../../support/wait-for.ts';

const BOUND_MS = 1000;
/** News that a busy machine brings late are in time. */
const PATIENT_MS = 4000;
const PATIENT = { REVOCATION_LAG_MAX_MS: String(PATIENT_MS) };
/** A response that is as late is of no use. */
const FAR_MS = 1200;

let at: Servers;
let verifier: Verifier;
/** A server by itself counts exactly, and no answer of it is late on a busy machine. */
let alone: Servers;
let ofAlone: Verifier;
beforeAll(async () => {
  [at, alone] = await Promise.all([
    startServers('embedded', ['bun', 'bun']),
    startServers('embedded', ['bun'], PATIENT),
  ]);
  verifier = await verifierOf(at);
  ofAlone = await verifierOf(alone);
}, 180_000);
afterAll(async () => {
  await Promise.all([verifier.close(), ofAlone.close()]);
  await Promise.all([at[Symbol.asyncDispose](), alone[Symbol.asyncDispose]()]);
});

async function verifierOf(of: Servers): Promise<Verifier> {
  const { id, key } = await of.createKey('operator', ['introspect']);
  return createVerifier({ url: of.url, id, key, onError: () => undefined });
}

test('a good key is let in, with who is behind it', async () => {
  const { key, id } = await at.createKey('alice', ['read', 'write']);
  expect(await verifier.verify(key, { scopes: ['write'] })).toEqual({
    ok: true,
    keyId: id,
    owner: 'alice',
    name: 'a key',
    scopes: ['read', 'write'],
    expiresAtS: null,
    metadata: {},
    parent: null,
  });
  await waitFor(() => verifier.knownForMs() < BOUND_MS);
});

test.each([{}, { expiresInDays: 1 }])('an MCP server of the official SDK admits a key made with %j', async (input) => {
  const { key, id } = await at.createKey('alice', ['read'], input);
  const verifyAccessToken = async (token: string) => {
    const caller = await decided(() => verifier.verify(token));
    if (!caller.ok) throw new Error(caller.problem.detail);
    // `expiresAt` as src/api/README.md has it.
    return { token, clientId: caller.keyId, scopes: [...caller.scopes], expiresAt: caller.expiresAtS ?? Infinity };
  };
  const options = { verifier: { verifyAccessToken }, requiredScopes: ['read'] };
  expect(await verifyBearerToken(`Bearer ${key}`, options)).toMatchObject({ clientId: id });
});

test('what it hands out is frozen: nobody adds to what the next check gets', async () => {
  const { key } = await at.createKey('alice', ['read']);
  await at.keys('owner', 'alice', '--meta', 'plan=free');
  const own = await verifierOf(at);
  const found = await decided(() => own.verify(key, { scopes: ['read'] }));
  const required = ['admin'];
  const lacking = await own.verify(key, { scopes: required });
  if (!found.ok || lacking.ok) throw new Error('expected one of each');
  const { requiredScopes = [] } = lacking.problem;
  for (const part of [found, found.scopes, found.metadata, lacking, lacking.problem, requiredScopes]) {
    expect(Object.isFrozen(part)).toBe(true);
  }
  expect(Object.isFrozen(required)).toBe(false);
  expect(() => (found.scopes as string[]).push('admin')).toThrow(TypeError);
  expect(await own.verify(key, { scopes: ['admin'] })).toMatchObject({ status: 403 });
  for (const refused of [await own.verify('x'), await own.verify('')]) expect(Object.isFrozen(refused)).toBe(true);
  await own.close();
});

/** Of each key. */
const CHECKS = everything ? 100 : 40;
const KEYS = 200;
const LIMITS: readonly [string, Record<string, string>, number][] = [
  // A lease is of 31 units, and with a quarter left the next one is asked for.
  ['with the default limit', {}, KEYS * (1 + Math.ceil(CHECKS / 25))],
  ['without limits', { RATE_LIMIT_REQUESTS: '0' }, 300],
];
test.each(rows(LIMITS, 1))(
  `of ${CHECKS} checks of each of ${KEYS} keys few are questions, %s`,
  async (_, env, questionsMax) => {
    await using own = await startServers('embedded', ['bun', 'bun'], { ...PATIENT, ...env });
    const asks = await verifierOf(own);
    const keys: string[] = [];
    for (let made = 0; made < KEYS; made += 1) keys.push((await own.createKey('bob')).key);
    const late = new Set<number>(); // rounds in which a busy machine kept the feed from it: each key may be asked about once
    for (let round = 0; round < CHECKS; round += 1) {
      for (const key of keys) {
        expect((await decided(() => asks.verify(key))).ok).toBe(true);
        if (asks.knownForMs() > PATIENT_MS / 2) late.add(round);
      }
      await Bun.sleep(0);
    }
    expect(late.size).toBeLessThan(0.6 * CHECKS); // on a quiet machine there is none
    expect(own.questions()).toBeLessThanOrEqual(questionsMax + late.size * keys.length);
    await asks.close();
  },
  180_000,
);

test('one that is asked about by many at once is one question', async () => {
  const { key } = await alone.createKey('carol');
  const before = alone.questions();
  const all = await Promise.all(Array.from({ length: 20 }, () => ofAlone.verify(key)));
  expect(all.every(({ ok }) => ok)).toBe(true);
  expect(alone.questions() - before).toBe(1);
});

test('what is let in shows as uses, and counts against the limit', async () => {
  const { key } = await alone.createKey('dave', ['read'], { rateLimit: { requests: 100, window: '1h' } });
  let letIn = 0;
  let last = await ofAlone.verify(key);
  for (; last.ok && letIn < 120; last = await ofAlone.verify(key)) {
    letIn += 1;
    await Bun.sleep(5);
  }
  expect(last).toMatchObject({ ok: false, status: 429, problem: { code: 'rate_limited' } });
  expect(letIn).toBeGreaterThanOrEqual(96); // L less a thirty-second for the one service
  expect(letIn).toBeLessThanOrEqual(106);
}, 180_000);

test("an owner's quota that is used up is said to be of all keys, as at the server", async () => {
  const { key } = await alone.createKey('lena');
  await alone.keys('owner', 'lena', '--quota', '2/day');
  await waitFor(async () => {
    const verified = await ofAlone.verify(key);
    return !verified.ok && verified.status === 429;
  });
  const { body } = await callOver(alone.servers[0]?.url ?? '', 'get_data', {}, { 'x-api-key': key });
  const { detail, code, of } = body;
  expect(of).toBe('owner');
  expect(await ofAlone.verify(key)).toMatchObject({ status: 429, problem: { code, detail, of } });
  const guarded = await ofAlone.guard(new Request('http://service', { headers: { 'x-api-key': key } }));
  if (guarded.ok) throw new Error('it was let in');
  expect(await guarded.response.json()).toMatchObject({ status: 429, code, detail, of });
});

test('a call that costs more than a lease has is a question', async () => {
  const { key } = await alone.createKey('erin', ['read'], { rateLimit: { requests: 320, window: '1h' } });
  await ofAlone.verify(key);
  const before = alone.questions();
  expect((await ofAlone.verify(key, { cost: 300 })).ok).toBe(true);
  expect(alone.questions() - before).toBe(1);
  expect((await ofAlone.verify(key, { cost: 1 })).ok).toBe(true);
  expect(await ofAlone.verify(key, { cost: 20 })).toMatchObject({ status: 429 });
});

test('a cost that is none, from memory too, lets nobody in and says so; no question is sent, and it goes on listening', async () => {
  const { key } = await at.createKey('grace');
  const { id, key: own } = await at.createKey('operator', ['introspect']);
  const said: string[] = [];
  const told = createVerifier({ url: at.url, id, key: own, onError: ({ message }) => void said.push(message) });
  await remembered(at, () => decided(() => verifier.verify(key)));
  const before = at.questions();
  for (const cost of [0, -5, 0.5, 1001, 1e9, Number.NaN, Number.POSITIVE_INFINITY, '2' as unknown as number]) {
    for (const each of [verifier, told])
      expect(await each.verify(key, { cost })).toMatchObject({ ok: false, status: 503 });
  }
  expect(at.questions()).toBe(before);
  expect(said).toEqual([
    `mcp-key-server/verifier: ${at.url}: verify: expected only scopes, a list, and cost, a whole number from 1 to 1000`,
  ]);
  await told.close();
  const heard = at.asked.get('/changes') ?? 0;
  await waitFor(() => (at.asked.get('/changes') ?? 0) > heard + 2 && verifier.knownForMs() < BOUND_MS);
  await remembered(at, () => decided(() => verifier.verify(key)));
});

test('a key that has ended, in whatever way, is refused within the bound, as at a server', async () => {
  const letsIn = async (key: string) => (await verifier.verify(key, { scopes: ['read'] })).ok;
  expect(await lateEndings(at, BOUND_MS, letsIn)).toEqual([]);
}, 180_000);

test('while one of two servers stands still, a key that has ended at the other is refused within the bound', async () => {
  const made = await at.createKey('frank');
  const letsIn = async () => (await verifier.verify(made.key)).ok;
  expect((await decided(() => verifier.verify(made.key))).ok).toBe(true);
  at.servers[1]?.signal('SIGSTOP');
  try {
    const last = await lastYesAfter(() => ENDINGS.revoked?.(at, made) ?? Promise.reject(), letsIn, 1500);
    expect(last).toBeLessThanOrEqual(BOUND_MS);
  } finally {
    at.servers[1]?.signal('SIGCONT');
  }
  await waitFor(async () => (await verifier.verify((await at.createKey('frank')).key)).ok);
}, 180_000);

test('guard reads the key as /verify does, and has the response for the client', async () => {
  const { key } = await at.createKey('gina');
  const asked = (headers: Record<string, string>) => new Request('http://service', { headers });
  expect((await verifier.guard(asked({ 'x-api-key': key }))).ok).toBe(true);
  expect((await verifier.guard(asked({ authorization: `bearer  ${key}` }))).ok).toBe(true);
  const none = await verifier.guard(asked({}));
  if (none.ok) throw new Error('nobody was let in');
  expect(none.response.headers.get('www-authenticate')).toBe('Bearer realm="mcp-key-server"');
  const wrong = await verifier.guard(asked({ 'x-api-key': 'x', authorization: `Bearer ${key}` }));
  if (wrong.ok) throw new Error('the wrong key was let in');
  expect(wrong.response.status).toBe(401);
  expect(wrong.response.headers.get('www-authenticate')).toContain('invalid_token');
  expect(await wrong.response.json()).toMatchObject({ code: 'invalid_api_key' });
  const lacking = await verifier.guard(asked({ 'x-api-key': key }), { scopes: ['write'] });
  expect(lacking).toMatchObject({ ok: false, status: 403 });
});

test.each(['write', 'read:日本', 'read:a\nb', 'x", error="invalid_token'])(
  'guard refuses a key without the scope %j with the challenge of /verify',
  async (scope) => {
    const { key } = await at.createKey('kim');
    const headers = { 'x-api-key': key };
    const scopes = ['other', scope];
    const refused = await verifier.guard(new Request('http://service', { headers }), { scopes });
    if (refused.ok) throw new Error('the key was let in');
    const query = new URLSearchParams(scopes.map((one) => ['scope', one]));
    const { status, headers: said } = await fetch(`${at.servers[0]?.url}/verify?${query}`, { headers });
    expect(status).toBe(refused.status);
    expect(refused.response.headers.get('www-authenticate')).toBe(said.get('www-authenticate'));
  },
);

test('it lets nobody in when it is closed', async () => {
  const { key } = await at.createKey('henry');
  const own = await verifierOf(at);
  expect((await own.verify(key)).ok).toBe(true);
  await own.close();
  expect(await own.verify(key)).toMatchObject({ ok: false, status: 503 });
});

describe('one that is set up wrongly', () => {
  let service: MadeKey;
  beforeAll(async () => {
    service = await at.createKey('operator', ['introspect']);
  });

  test.each([
    ['with an empty id', { id: '' }, 'id'],
    ['without an id', { id: undefined as never }, 'id'],
    ['without a key', { key: '' }, 'key'],
    ...[
      '',
      '127.0.0.1:3000',
      'localhost:3000',
      'ftp://keys.example',
      'https://user:pass@keys.example',
      'http://k?a=b',
    ].map((url) => [`with the URL "${url}"`, { url }, 'url'] as const),
    ['with a resource that is no URL', { resource: 'orders' }, 'resource'],
    ['with an empty resource, which would ask for none', { resource: '' }, 'resource'],
  ])('%s is refused when it is made', (_, wrong, name) => {
    const made = () => createVerifier({ url: 'http://127.0.0.1:3000', id: 'an-id', key: 'a-key', ...wrong });
    expect(made).toThrow(new RegExp(`^createVerifier: ${name}: expected `));
    expect(made).not.toThrow(/pass/);
  });

  test.each<[string, (url: string) => Promise<Partial<VerifierOptions>>, RegExp]>([
    ['another id', async () => ({ id: 'x' }), /: 401 invalid_client: id or key is wrong, or the key has ended$/],
    ['another key', async () => ({ key: 'sk_test_x' }), /: 401 invalid_client: /],
    [
      'a key without the scope',
      async () => at.createKey('operator', ['read']),
      /: 403 insufficient_scope: the key needs the scope introspect$/,
    ],
    ['the URL of /mcp', async (url) => ({ url: `${url}/mcp` }), /\/mcp: 404: no POST \/changes there$/],
    ['the port of nobody', async () => ({ url: 'http://127.0.0.1:1' }), /127\.0\.0\.1:1: ECONNREFUSED: (?!ECONN)/],
  ])('with %s says so, once, and lets nobody in', async (_, wrong, expected) => {
    const said: string[] = [];
    const { id, key } = service;
    const onError = ({ message }: Error) => void said.push(message);
    const own = createVerifier({ url: at.url, id, key, onError, ...(await wrong(at.url)) });
    for (let times = 0; times < 3; times += 1) {
      expect(await own.verify(key)).toMatchObject({ ok: false, status: 503, problem: { code: 'store_unavailable' } });
    }
    await own.close();
    expect(said[0]).toMatch(expected);
    expect(new Set(said).size).toBe(said.length);
    expect(said.join()).not.toContain(key);
  });

  test('of a server that is too far away says so', async () => {
    at.between = async (_, passOn) => {
      const response = await passOn();
      await Bun.sleep(FAR_MS);
      return response;
    };
    const said: string[] = [];
    const { id, key } = service;
    const own = createVerifier({ url: at.url, id, key, onError: ({ message }) => void said.push(message) });
    expect(await own.verify((await at.createKey('alice')).key)).toMatchObject({ ok: false, status: 503 });
    at.between = null;
    await own.close();
    expect(said).toContain(`mcp-key-server/verifier: ${at.url}: responses come later than the bound allows`);
  }, 180_000);

  test('of a server where another responds says so, and goes on if that is what throws', async () => {
    using other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('hello') });
    const said: string[] = [];
    const onError = ({ message }: Error) => {
      said.push(message);
      throw new Error('a bug of the service');
    };
    const own = createVerifier({ url: `${other.url}`, id: 'x', key: 'x', onError });
    expect(await own.verify('a key')).toMatchObject({ ok: false, status: 503 });
    await own.close();
    expect(said).toEqual([expect.stringContaining('expected an answer of an mcp-key-server')]);
  });

  test('writes a line if nobody wants to be told', async () => {
    const script = `
      import { createVerifier } from '${join(ROOT, 'src/doors/services/verifier.ts')}';
      const own = createVerifier({ url: '${at.url}', id: 'x', key: '${service.key}' });
      for (let times = 0; times < 3; times += 1) await own.verify('a key');
      await own.close();`;
    const { stderr } = await run([process.execPath, '-e', script], { cwd: temporaryFolder() });
    const line = `mcp-key-server/verifier: ${at.url}: 401 invalid_client: id or key is wrong, or the key has ended\n`;
    expect(stderr).toBe(line);
  });
});

const MISSING = { status: 401, problem: { code: 'missing_api_key' } };
const INVALID = { status: 401, problem: { code: 'invalid_api_key' } };
/** Undefined is a good key. As JavaScript may pass it, too. */
const WRONG: readonly [string, { key?: unknown; demand?: unknown }, object][] = [
  ['no key', { key: '' }, MISSING],
  ['an unknown key', { key: `sk_test_${'0'.repeat(64)}` }, INVALID],
  ['a text that is too long', { key: 'x'.repeat(16 * 1024 + 1) }, INVALID],
  ['a key that is null', { key: null }, MISSING],
  ['a key that is no text', { key: 5 }, INVALID],
  ['scopes that are a text', { demand: { scopes: 'read' } }, { status: 503 }],
  ['scopes that are no texts', { demand: { scopes: [undefined] } }, { status: 503 }],
  ['scopes that are null', { demand: { scopes: null } }, { status: 503 }],
  ['a demand that is null', { demand: null }, { status: 503 }],
  ['a demand by a mistyped name', { demand: { scope: ['admin'] } }, { status: 503 }],
];
test('what is no key, and no demand, lets nobody in, though a good key is in memory', async () => {
  const { key: good } = await at.createKey('ida');
  await remembered(at, () => decided(() => verifier.verify(good)));
  for (const [what, { key = good, demand }, refused] of WRONG) {
    const answer = await verifier.verify(key as string, demand as undefined);
    expect({ what, ...answer }).toMatchObject({ what, ok: false, ...refused });
  }
  const nothing = undefined as unknown as string;
  expect(await verifier.verify(nothing)).toMatchObject({ ok: false, ...MISSING });
});

test('a request that is no Request, as Node and Express have them, is refused, and a line says so', async () => {
  const { id, key } = await at.createKey('operator', ['introspect']);
  const said: string[] = [];
  const made = createVerifier({ url: at.url, id, key, onError: ({ message }) => void said.push(message) });
  for (const asked of [{ headers: { 'x-api-key': key } }, undefined]) {
    const refused = await made.guard(asked as unknown as Request, { scopes: ['introspect'] });
    expect(refused).toMatchObject({ ok: false, status: 503 });
  }
  expect(said).toEqual([
    `mcp-key-server/verifier: ${at.url}: guard: expected a Request; verify takes a key, and nothing else`,
  ]);
  await made.close();
});
