// Who may give what to a key: KEY_SCOPES, JWT_SCOPE_CLAIM, KEY_MAX_DAYS, at creation and at an update.

import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import * as v from 'valibot';
import { defineTool, ok, type Problem, type Result, type ToolDeps } from '../../src/start/package/index.ts';
import { call, callAll, post, WAYS } from '../support/mcp.ts';
import { actorFor, bearer, createTestApp, failureOf, sharedApp, type TestApp } from '../support/test-app.ts';
import { facts } from '../support/tools.ts';

const MS_PER_DAY = 86_400_000;

/** Creates a key with a token that has these claims. */
async function create(app: TestApp, input: Record<string, unknown>, claims: Record<string, unknown> = {}) {
  const headers = { authorization: `Bearer ${await app.token('alice', claims)}` };
  return app.call('create_api_key', { name: 'n', scopes: [], ...input }, headers);
}

const keysOf = async (app: TestApp) =>
  (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body.keys as { scopes: string[] }[];

/** What clients are told of the input of create_api_key. */
const inputSchema = async (app: TestApp) => (await WAYS.legacy(app, 'tools/list')).result.tools[0].inputSchema;

describe('KEY_SCOPES', async () => {
  const app = await sharedApp({ env: { KEY_SCOPES: 'read write:orders' } });

  test('another scope is bad input, which names those that exist, not the one that was sent; nothing is made', async () => {
    const { status, body } = await create(app, { scopes: ['read', 'Read', 'write', 'admin'] });
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' });
    const message = 'Expected one of read, write:orders';
    expect(body.issues).toEqual(['scopes.1', 'scopes.2', 'scopes.3'].map((path) => ({ path, message })));
    expect(JSON.stringify(body)).not.toContain('admin');
    const hundred = await create(app, { scopes: Array.from({ length: 100 }, (_, index) => `x${index}`) });
    expect(hundred.body.issues).toHaveLength(10);
    expect(await keysOf(app)).toEqual([]);
  });

  test.each([[[]], [['read']], [['write:orders', 'read']], [['read', 'read']]])('%j are granted', async (scopes) => {
    expect((await create(app, { scopes })).body.scopes).toEqual([...new Set(scopes)]);
  });

  test('tools/list and OpenAPI show them as an enum', async () => {
    const schema = await inputSchema(app);
    expect(schema.properties.scopes.items).toEqual({ type: 'string', enum: ['read', 'write:orders'] });
    const openapi = await (await fetch(`${app.url}/openapi.json`)).json();
    const { requestBody } = openapi.paths['/tools/create_api_key'].post;
    expect(requestBody.content['application/json'].schema).toEqual(schema);
  });

  test('a tool that needs a scope outside stops the start', async () => {
    expect(await failureOf(createTestApp({ env: { KEY_SCOPES: 'write' } }))).toContain(
      'KEY_SCOPES: expected "read" in it, because get_data needs it, got "write"',
    );
  });
});

describe('KEY_MAX_DAYS', async () => {
  const app = await sharedApp({ env: { KEY_MAX_DAYS: '30' } });
  const issues = [{ path: 'expiresInDays', message: 'Expected a number above 0 and at most 30' }];

  test.each([30.000001, 31, 36_500])('%p days are refused, and nothing is made', async (expiresInDays) => {
    expect(await create(app, { expiresInDays })).toMatchObject({ status: 400, body: { issues } });
    expect(await keysOf(app)).toEqual([]);
  });

  test.each([
    [undefined, 30],
    [30, 30],
    [29.5, 29.5],
    [0.001, 0.001],
  ])('%p days become %p', async (expiresInDays, days) => {
    const { body } = await create(app, { expiresInDays });
    expect(body.expiresAt).toBe(Math.round(app.clock.nowMs() + days * MS_PER_DAY));
  });

  test('a rotation lets no key live longer', async () => {
    const { id } = await app.createKey('alice');
    const rotated = await app.call('rotate_api_key', { keyId: id, expiresInDays: 31 }, await bearer(app, 'alice'));
    expect(rotated).toMatchObject({ status: 400, body: { issues } });
  });

  test('the schema says so', async () => {
    expect((await inputSchema(app)).properties.expiresInDays).toMatchObject({
      maximum: 30,
      description: 'Days until the key expires, more than 0, fractions allowed. Without it it is 30.',
    });
  });
});

describe('JWT_SCOPE_CLAIM', async () => {
  const env = { JWT_SCOPE_CLAIM: 'scope' };
  const app = await sharedApp({ env });
  const long = Array.from({ length: 1000 }, (_, index) => `s${index}`);

  test.each([
    ['one more', 'read write', ['read', 'write', 'admin']],
    ['another case', 'read', ['Read']],
    ['a part of one', 'read:orders', ['read']],
    ['two in one element', ['read write'], ['read']],
    ['empty text', '', ['read']],
    ['no claim', undefined, ['read']],
    ['null', null, ['read']],
    ['a number', 1, ['1']],
    ['an object', { read: true }, ['read']],
    ['a list with something else in it', ['read', 1], ['read']],
    ['a list of lists', [['read']], ['read']],
  ])('%s: refused over REST and MCP, and nothing is made', async (_, scope, scopes) => {
    const { body } = await create(app, { scopes }, { scope });
    const detail = 'You may not give a key these scopes';
    expect(body).toMatchObject({ status: 403, code: 'scope_not_granted', detail });
    const headers = { authorization: `Bearer ${await app.token('alice', { scope })}` };
    const { body: mcp } = await post(app, call('create_api_key', { name: 'n', scopes }), headers);
    expect(mcp.result.isError).toBe(true);
    const [sentence, hint] = mcp.result.content;
    expect(sentence.text).toBe(detail);
    expect(hint.text).toStartWith('You may give these scopes: ');
    expect(await keysOf(app)).toEqual([]);
    const [rest, overMcp] = (await app.log()).filter(({ event }) => event === 'Scope not granted').slice(-2);
    expect(rest).toMatchObject({ level: 'warn', userId: 'alice', requestId: body.requestId });
    expect(overMcp).toMatchObject({ level: 'warn', userId: 'alice' });
  });

  test.each([
    ['text', 'read write', ['write', 'read']],
    ['one of it', 'read write', ['read']],
    ['text with more spaces', '  read   write ', ['read', 'write']],
    ['a list', ['read', 'write'], ['read', 'write']],
    ['twice the same', ['read', 'read'], ['read', 'read']],
    ['a thousand scopes', long, ['s999']],
    ['nothing of nothing', '', []],
    ['nothing without the claim', undefined, []],
  ])('%s: granted', async (_, scope, scopes) => {
    expect((await create(app, { scopes }, { scope })).body.scopes).toEqual([...new Set(scopes)]);
  });

  test('a claim whose name is a property of every object grants nothing', async () => {
    await using odd = await createTestApp({ env: { JWT_SCOPE_CLAIM: '__proto__' } });
    expect((await create(odd, { scopes: ['read'] })).status).toBe(403);
  });

  test('the second token of a person counts for itself, not by what is remembered of the first', async () => {
    for (const [scope, status] of [
      ['read', 200],
      ['write', 403],
      ['read', 200],
    ] as const)
      expect((await create(app, { scopes: ['read'] }, { scope })).status).toBe(status);
  });

  test('who may not grant does not use up the budget of creations', async () => {
    await using app = await createTestApp({ env });
    const refused = { authorization: `Bearer ${await app.token('alice', { scope: '' })}` };
    const inputs = Array.from({ length: 2001 }, () => ({ name: 'n', scopes: ['read'] }));
    const results = await callAll(app, 'create_api_key', inputs, refused);
    expect(results.every(({ isError }) => isError)).toBe(true);
    expect((await create(app, {})).status).toBe(200);
  });
});

test('an update obeys the same ceilings, and changes nothing when it is refused', async () => {
  await using app = await createTestApp({ env: { KEY_SCOPES: 'read write', JWT_SCOPE_CLAIM: 'scope' } });
  const { id } = (await create(app, { scopes: ['read'] }, { scope: 'read' })).body;
  const alice = { ...actorFor('alice'), grantable: ['read'] };
  const codeOf = async (scopes: string[]) => {
    const updated = await app.update(alice, id, { name: 'new', scopes });
    return updated.ok ? 'ok' : updated.error.code;
  };
  expect(await codeOf(['admin'])).toBe('invalid_input');
  expect(await codeOf(['read', 'write'])).toBe('scope_not_granted');
  expect(await keysOf(app)).toMatchObject([{ name: 'n', scopes: ['read'] }]);
  expect(await codeOf(['read', 'read'])).toBe('ok');
  expect(await keysOf(app)).toMatchObject([{ name: 'new', scopes: ['read'] }]);
});

test('no sequence of calls gives a key a scope outside its creator’s claim at that time', async () => {
  await using app = await createTestApp({ env: { JWT_SCOPE_CLAIM: 'scope', REVOCATION_LAG_MAX_MS: '60000' } });
  const scopes = fc.subarray(['read', 'write', 'admin', 'read:orders']);
  const claim = fc.oneof(
    scopes,
    scopes.map((list) => list.join(' ')),
    fc.constantFrom(undefined, null, 7, ['read', 7], { read: true }),
  );
  const step = fc.record({
    does: fc.constantFrom('create', 'update', 'rotate', 'revoke', 'delete'),
    claim,
    scopes,
    which: fc.nat(3),
  });
  const granted = (scope: unknown): readonly string[] => {
    if (typeof scope === 'string') return scope.split(' ');
    return Array.isArray(scope) && scope.every((one) => typeof one === 'string') ? scope : [];
  };
  let round = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
      round += 1;
      const owner = `user-${round}`;
      /** What whoever last gave scopes to a key could grant. */
      const allowed = new Map<string, readonly string[]>();
      const scopesOf = new Map<string, readonly string[]>();
      for (const { does, claim: scope, scopes: wanted, which } of steps) {
        const headers = { authorization: `Bearer ${await app.token(owner, { scope })}` };
        const id = [...allowed.keys()][which] ?? '0'.repeat(32);
        if (does === 'create') {
          const { status, body } = await app.call('create_api_key', { name: 'n', scopes: wanted }, headers);
          expect(status).toBe(wanted.every((one) => granted(scope).includes(one)) ? 200 : 403);
          if (status === 200) allowed.set(body.id, granted(scope));
        } else if (does === 'update') {
          const actor = { ...actorFor(owner), grantable: granted(scope) };
          const updated = await app.update(actor, id, { scopes: wanted });
          if (updated.ok && wanted.length > 0 && allowed.has(id)) allowed.set(id, granted(scope));
        } else if (does === 'rotate') {
          const before = scopesOf.get(id) ?? [];
          const { status, body } = await app.call('rotate_api_key', { keyId: id, overlapHours: 0 }, headers);
          if (status !== 200) continue;
          expect(body.scopes).toEqual(before);
          expect(before.every((one) => granted(scope).includes(one))).toBe(true);
        } else {
          await app.call(`${does}_api_key`, { keyId: id }, headers);
        }
        const listed = (await app.call('list_api_keys', {}, headers)).body.keys as { id: string; scopes: string[] }[];
        scopesOf.clear();
        for (const key of listed) {
          scopesOf.set(key.id, key.scopes);
          const bound = allowed.get(key.id) ?? [];
          expect(key.scopes.filter((one) => !bound.includes(one))).toEqual([]);
        }
      }
    }),
    { numRuns: 60 },
  );
}, 180_000);

describe('a tool file that asks for a key without a schema', () => {
  const asked = { name: 'n', scopes: ['read'], expiresInDays: 1 };
  const wrong = [
    { name: undefined as unknown as string },
    { name: '' },
    { name: 'a\0b' },
    { scopes: ['a b'] },
    { expiresInDays: Number.NaN }, // the database would keep that as never
    { expiresInDays: -1 },
    { expiresInDays: 36_501 },
  ];
  const limits = [
    { rateLimit: { requests: Number.NaN, windowS: 60 } },
    { rateLimit: { requests: 0, windowS: 60 } },
    { rateLimit: { requests: 1, windowS: 0 } },
    { rateLimit: { requests: 1, windowS: 1e9 } },
    { quota: { requests: -1, period: 'day' as const } },
    { quota: { requests: 1, period: 'year' as 'day' } },
  ];

  type Keys = ToolDeps['keys'];
  type Actor = ReturnType<typeof actorFor>;
  type Ask = (keys: Keys, actor: Actor, keyId: string) => Promise<Result<unknown, Problem>>;

  const ASKS: Readonly<Record<string, Ask>> = {
    create: (keys, actor) => keys.create(actor, asked),
    list: (keys, actor) => keys.list(actor, null),
    revoke: (keys, actor, keyId) => keys.revoke(actor, keyId),
    delete: (keys, actor, keyId) => keys.delete(actor, keyId),
    update: (keys, actor, keyId) => keys.update(actor, keyId, { name: 'other' }),
  };

  /** An app with such a tool. */
  function serving(ask: Ask) {
    const make = ({ guards, keys }: ToolDeps) => [
      defineTool(guards.userJwt, {
        ...facts('ask'),
        input: v.strictObject({ keyId: v.optional(v.string(), '') }),
        output: v.strictObject({}),
        async run({ keyId }, { auth }) {
          const made = await ask(keys, actorFor(auth.subject), keyId);
          return made.ok ? ok({}) : made;
        },
      }),
    ];
    return createTestApp({ toolFiles: [{ file: 'tools/wrong.ts', make }] });
  }

  test.each([...wrong, ...limits])('gets none with %j', async (fields) => {
    await using app = await serving((keys, actor) => keys.create(actor, { ...asked, ...fields }));
    const { status, body } = await app.call('ask', {}, await bearer(app, 'alice'));
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' });
    expect(body.issues[0].path).toStartWith(String(Object.keys(fields)[0]));
    expect(await keysOf(app)).toEqual([]);
  });

  const rotations = [
    ...wrong.slice(4).map(({ expiresInDays }) => ({ overlapHours: 0, expiresInDays })),
    ...[Number.NaN, -1, 0.5, 721].map((overlapHours) => ({ overlapHours })),
  ];

  test.each(rotations)('is not rotated with %j', async (rotation) => {
    await using app = await serving((keys, actor, keyId) => keys.rotate(actor, keyId, rotation));
    const { id: keyId, key } = await app.createKey('alice', { expiresInDays: 1 });
    const { status, body } = await app.call('ask', { keyId }, await bearer(app, 'alice'));
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' });
    expect((await app.useKey(key)).status).toBe(200);
  });

  test.each(Object.entries(ASKS))('is told that it names no owner (%s), and nothing is changed', async (_, ask) => {
    await using app = await serving((keys, { userId: _, ...actor }, keyId) => ask(keys, actor as Actor, keyId));
    const { id: keyId, key } = await app.createKey('alice');
    const { status } = await app.call('ask', { keyId }, await bearer(app, 'alice'));
    expect({ status, log: await app.logText() }).toEqual({
      status: 500,
      log: expect.stringContaining('Error: keys: expected userId and actor as texts, got undefined and string'),
    });
    expect((await app.useKey(key)).status).toBe(200);
    expect(await keysOf(app)).toHaveLength(1);
  });
});
