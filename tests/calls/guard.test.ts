// Guards compose: order, first refusal, and a wrong order that does not compile (the type checker runs this file too).

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { type Call, defineTool, err, type Guard, ok, sequence, type ToolDeps } from '../../src/start/package/index.ts';
import { createTestApp, fingerprint, insertKey, sharedApp } from '../support/test-app.ts';
import { facts } from '../support/tools.ts';

const schemas = { input: v.strictObject({}), output: v.strictObject({ who: v.string() }) };

const tools = ({ guards }: ToolDeps) => [
  defineTool(sequence(guards.apiKey, guards.scopes('read', 'write')), {
    ...facts('right_order'),
    ...schemas,
    run: (_input, { auth }) => ok({ who: auth.subject }),
  }),
  defineTool(sequence(guards.apiKey, guards.scopes('read:orders')), {
    ...facts('orders'),
    ...schemas,
    run: (_input, { auth }) => ok({ who: auth.subject }),
  }),
  defineTool(
    sequence(
      guards.apiKey,
      guards.rateLimit({ requests: 9, window: '1h', key: ({ auth }) => auth.keyId }),
      guards.scopes('read'),
    ),
    {
      ...facts('three_guards'),
      ...schemas,
      run: (_input, { auth }) => ok({ who: auth.keyId }),
    },
  ),
  defineTool(
    sequence(
      guards.apiKey,
      guards.scopes('read'),
      guards.rateLimit({ requests: 5, window: '1m', key: ({ auth }) => auth.keyId }),
      guards.rateLimit({ requests: 9, window: '1h', key: ({ auth }) => auth.subject }),
    ),
    {
      ...facts('four_guards'),
      ...schemas,
      run: (_input, { auth }) => ok({ who: auth.keyId }),
    },
  ),
];

/** Never called: the compiler's refusal is the test. */
export const wrong = ({ guards }: ToolDeps) => [
  // @ts-expect-error: the scope guard needs what the key guard adds, so it can't come first
  defineTool(sequence(guards.scopes('read'), guards.apiKey), {
    ...facts('scopes_first'),
    ...schemas,
    run: () => ok({ who: '' }),
  }),
  // @ts-expect-error: nor can it come first of three
  defineTool(sequence(guards.scopes('read'), guards.apiKey, guards.scopes('write')), {
    ...facts('scopes_first_of_three'),
    ...schemas,
    run: () => ok({ who: '' }),
  }),
  defineTool(
    // @ts-expect-error: before the key guard there is no key id to count by
    sequence(guards.rateLimit({ requests: 9, window: '1h', key: ({ auth }) => auth.keyId }), guards.apiKey),
    { ...facts('limit_first'), ...schemas, run: () => ok({ who: '' }) },
  ),
  defineTool(
    sequence(
      guards.userJwt,
      // @ts-expect-error: a user JWT says who, but there is no key id to count by
      guards.rateLimit({ requests: 9, window: '1h', key: ({ auth }) => auth.keyId }),
    ),
    { ...facts('limit_by_key_of_a_user'), ...schemas, run: () => ok({ who: '' }) },
  ),
  // @ts-expect-error: nor can it stand alone
  defineTool(guards.scopes('read'), { ...facts('scopes_alone'), ...schemas, run: () => ok({ who: '' }) }),
  // @ts-expect-error: nor can the guard of admins: it asks of a user what the guard for users adds
  defineTool(guards.admin, { ...facts('admin_alone'), ...schemas, run: () => ok({ who: '' }) }),
  // @ts-expect-error: a key is nobody's claim
  defineTool(sequence(guards.apiKey, guards.admin), { ...facts('admin_key'), ...schemas, run: () => ok({ who: '' }) }),
  defineTool(guards.userJwt, {
    ...facts('no_key_id'),
    ...schemas,
    // @ts-expect-error: a user JWT says who, but there is no key
    run: (_input, { auth }) => ok({ who: auth.keyId }),
  }),
];

const app = await sharedApp({ tools });

test.each([
  ['right_order', ['read', 'write'], 200],
  ['right_order', ['x', 'write', 'read'], 200],
  ['right_order', ['read'], 403],
  ['right_order', ['write'], 403],
  ['right_order', [], 403],
  ['right_order', ['admin'], 403],
  ['right_order', ['Read', 'write'], 403],
  ['right_order', ['read:all', 'write'], 403],
  ['right_order', ['read,write'], 403],
  // A scope is no pattern and no prefix.
  ['orders', ['read:orders'], 200],
  ['orders', ['read'], 403],
  ['orders', ['read:'], 403],
  ['orders', ['read:*'], 403],
  ['orders', ['*'], 403],
  ['orders', ['read:orders:all'], 403],
  ['orders', ['orders'], 403],
])('every scope that a tool requires must be held, by exact string: %s with %j is %d', async (tool, scopes, status) => {
  const key = await insertKey(app, 'alice', scopes);
  expect((await app.call(tool, {}, { 'x-api-key': key })).status).toBe(status);
});

test('without scopes none are held, and a text of two is neither', async () => {
  const asIf =
    (auth: { readonly scopes?: readonly string[] }): Guard<object, { readonly auth: typeof auth }> =>
    () =>
      ok({ auth });
  const schemas = { input: v.strictObject({}), output: v.strictObject({}), run: () => ok({}) };
  await using own = await createTestApp({
    tools: ({ guards }) => {
      const behind = (guard: Guard<Call, { readonly auth: object }>, ...scopes: readonly string[]) =>
        Object.assign(sequence(guard, guards.scopes(...scopes)), { requiredScopes: [], follows: undefined }); // for no key
      return [
        defineTool(behind(asIf({}), 'read'), { ...facts('none'), ...schemas }),
        defineTool(behind(asIf({ scopes: ['read write'] }), 'read'), { ...facts('text_of_two'), ...schemas }),
      ];
    },
  });
  const statusOf = async (tool: string) => (await own.call(tool)).status;
  expect(await Promise.all(['none', 'text_of_two'].map(statusOf))).toEqual([403, 403]);
});

test('a tool behind three or four guards runs with what they added, and states the last limit', async () => {
  const key = await insertKey(app, 'alice', ['read']);
  const three = await app.call('three_guards', {}, { 'x-api-key': key });
  expect(three).toMatchObject({ status: 200, body: { who: expect.stringMatching(/./) } });
  expect(three.headers.get('ratelimit')).toBe('"key";r=8;t=3600');
  expect((await app.call('three_guards')).headers.get('ratelimit')).toBe('"key";r=9;t=3600');
  const four = await app.call('four_guards', {}, { 'x-api-key': key });
  expect(four).toMatchObject({ status: 200, body: three.body });
  expect(four.headers.get('ratelimit')).toBe('"key";r=8;t=3600');
});

const EVERY_CALL_HAS: readonly object[] = [
  { response: null },
  { proof: undefined },
  { caller: {} },
  { tool: 'get_data' },
  { begin: 1 },
  { end: 1 },
  { trace: {} },
  { limits: { rows: 10 } },
  JSON.parse('{"__proto__":{"role":"admin"}}'),
];
test.each(EVERY_CALL_HAS)(
  'a guard that would replace what every call has is a bug, and the log says so: %j',
  async (added) => {
    const schemas = { input: v.strictObject({}), output: v.strictObject({}), run: () => ok({}) };
    const adding: Guard<Call> = () => ok(added);
    await using own = await createTestApp({
      env: { ACCESS_LOG: '1' },
      tools: ({ guards }) => [
        defineTool(adding, { ...facts('alone'), ...schemas }),
        defineTool(sequence(guards.apiKey, adding), { ...facts('in_sequence'), ...schemas }),
      ],
    });
    const key = await insertKey(own, 'alice', []);
    const error = expect.stringContaining(`another name than ${Object.keys(added)[0]}, which every call has`);
    for (const tool of ['alone', 'in_sequence']) {
      const { status, body } = await own.call(tool, {}, { 'x-api-key': key });
      const { requestId } = body;
      expect([status, body]).toMatchObject([500, { code: 'internal', requestId: expect.stringMatching(/./) }]);
      const lines = (await own.log()).filter((line) => line.requestId === requestId);
      expect(lines).toContainEqual(expect.objectContaining({ event: 'internal error', tool, error }));
      expect(lines.at(-1)).toMatchObject({ event: 'request', tool, status: 500, code: 'internal' });
    }
  },
);

test('a guard that returns no value lets a call through, alone and in a sequence', async () => {
  // In JavaScript nothing demands one.
  const plain = (() => ({ ok: true })) as unknown as Guard<Call>;
  await using own = await createTestApp({
    tools: ({ guards }) => {
      const schemas = { input: v.strictObject({}), output: v.strictObject({}), run: () => ok({}) };
      return [
        defineTool(plain, { ...facts('alone'), ...schemas }),
        defineTool(sequence(guards.apiKey, plain), { ...facts('in_sequence'), ...schemas }),
      ];
    },
  });
  const key = await insertKey(own, 'alice', []);
  const statusOf = async (tool: string) => (await own.call(tool, {}, { 'x-api-key': key })).status;
  expect(await Promise.all(['alone', 'in_sequence'].map(statusOf))).toEqual([200, 200]);
});

test('a guard may return a copy of what another has made of the call', async () => {
  await using own = await createTestApp({
    tools: ({ guards }) => {
      const copying: Guard<Call, { readonly auth: { readonly subject: string }; readonly tenant: string }> = async (
        call,
      ) => {
        const found = await guards.apiKey(call);
        return found.ok ? ok({ ...found.value, tenant: 'shop' }) : found;
      };
      return [
        defineTool(copying, {
          ...facts('copied'),
          ...schemas,
          run: (_input, { tenant, auth }) => ok({ who: tenant + auth.subject }),
        }),
      ];
    },
  });
  const key = await insertKey(own, 'alice', []);
  expect(await own.call('copied', {}, { 'x-api-key': key })).toMatchObject({ status: 200, body: { who: 'shopalice' } });
});

describe('sequence', () => {
  test('a sequence demands the scopes of all its guards, also of sequences within', async () => {
    let demanded: unknown;
    const demanding = ({ guards }: ToolDeps) => {
      const two = sequence(guards.apiKey, guards.scopes('read', 'write'));
      demanded = [two.requiredScopes, sequence(two, guards.scopes('admin')).requiredScopes];
      return [];
    };
    await using _ = await createTestApp({ tools: demanding });
    expect(demanded).toEqual([
      ['read', 'write'],
      ['read', 'write', 'admin'],
    ]);
  });

  const addsA: Guard<object, { a: number }> = () => ok({ a: 1 });
  const addsB: Guard<{ a: number }, { b: number }> = ({ a }) => ok({ b: a + 1 });
  const addsC: Guard<{ a: number; b: number }, { c: number }> = ({ a, b }) => ok({ c: a + b + 1 });
  const addsD: Guard<{ c: number }, { d: number }> = ({ c }) => ok({ d: c + 1 });
  const passes: Guard<object> = () => ok({});
  const refuses: Guard<object> = () => err({ code: 'missing_api_key' });
  const refusal = { ok: false, error: { code: 'missing_api_key' } } as const;

  const laterA: typeof addsA = async (context) => addsA(context);
  const laterB: typeof addsB = async (context) => addsB(context);
  const laterC: typeof addsC = async (context) => addsC(context);
  const laterPasses: Guard<object> = async () => ok({});
  const laterRefuses: Guard<object> = async () => refusal;

  test('a sequence adds what each guard adds, and each sees what those before it added', async () => {
    expect(await sequence(addsA, addsB)({})).toEqual({ ok: true, value: { a: 1, b: 2 } });
    expect(await sequence(addsA, addsB, addsC)({})).toEqual({ ok: true, value: { a: 1, b: 2, c: 4 } });
    const all = { a: 1, b: 2, c: 4, d: 5 };
    expect(await sequence(addsA, addsB, addsC, addsD)({})).toEqual({ ok: true, value: all });
    expect(await sequence(sequence(addsA, passes, addsB), sequence(addsC, addsD))({})).toEqual({
      ok: true,
      value: all,
    });
  });

  test('a sequence puts what guards add into the context itself; one that adds nothing leaves it as it is', async () => {
    const context = { mine: true };
    const result = await sequence(passes, addsA, passes)(context);
    expect(result.ok && result.value).toBe(context as typeof context & { a: number });
    expect(context).toEqual({ mine: true, a: 1 } as typeof context);
  });

  test('the first refusal is the result of a sequence, and no guard after it is asked', async () => {
    let asked = 0;
    const spy: Guard<object> = () => {
      asked += 1;
      return ok({});
    };
    expect(await sequence(refuses, spy)({})).toEqual(refusal);
    expect(await sequence(refuses, spy, spy, spy)({})).toEqual(refusal);
    expect(await sequence(laterRefuses, spy, spy)({})).toEqual(refusal);
    expect(asked).toBe(0);
    expect(await sequence(spy, refuses, spy)({})).toEqual(refusal);
    expect(asked).toBe(1);
  });

  test('a sequence of synchronous guards is synchronous; it waits for those that decide later, wherever they stand', async () => {
    const all = { ok: true, value: { a: 1, b: 2, c: 4 } } as const;
    expect(sequence(addsA, addsB, addsC)({})).toEqual(all);
    expect(await sequence(laterA, addsB, addsC)({})).toEqual(all);
    expect(await sequence(addsA, laterB, addsC)({})).toEqual(all);
    expect(await sequence(addsA, addsB, laterC)({})).toEqual(all);
    expect(await sequence(laterA, laterB, laterC)({})).toEqual(all);
  });

  test('what a guard throws goes to the caller of the sequence', async () => {
    const bug: Guard<object> = () => {
      throw new Error('a bug');
    };
    expect(() => sequence(passes, bug, refuses)({})).toThrow('a bug');
    const later = Promise.resolve(sequence(laterPasses, bug, refuses)({}));
    expect(await later.catch(String)).toBe('Error: a bug');
  });
});

test('a key that loses a scope during the call is refused at its end, whichever guard demanded it', async () => {
  let meanwhile = async () => {};
  const twice = ({ guards }: ToolDeps) =>
    defineTool(sequence(guards.apiKey, guards.scopes('read'), guards.scopes('write')), {
      ...facts('twice'),
      ...schemas,
      async run() {
        await meanwhile();
        return ok({ who: 'it ran' });
      },
    });
  await using app = await createTestApp({ tools: twice });
  for (const [kept, status] of [
    [['read', 'write'], 200],
    [['read'], 403],
    [['write'], 403],
  ] as const) {
    const key = await insertKey(app, 'alice', ['read', 'write']);
    const id = JSON.parse(await app.keys('show', '--json', fingerprint(key))).id;
    meanwhile = async () => {
      await app.keys('update', id, ...kept.flatMap((scope) => ['--scope', scope]), '--name', 'changed');
      app.clock.advance(1001);
    };
    expect((await app.call('twice', {}, { 'x-api-key': key })).status).toBe(status);
  }
});
