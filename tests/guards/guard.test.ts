// Guards compose: order, first refusal, and a wrong order that does not compile (the type checker runs this file too).

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { both, type Guard } from '../../src/guards/guard.ts';
import { scopesGuard } from '../../src/guards/scopes.ts';
import { err, ok } from '../../src/lib/result.ts';
import { systemClock } from '../../src/lib/runtime.ts';
import { createLog } from '../../src/log/log.ts';
import { defineTool } from '../../src/tools/core/tool.ts';
import type { ToolDeps } from '../../src/tools/core/toolbox.ts';
import { createTestApp, insertKey } from '../support/test-app.ts';
import { facts } from '../support/tools.ts';

const schemas = { input: v.strictObject({}), output: v.strictObject({ who: v.string() }) };

const tools = ({ guards }: ToolDeps) => [
  defineTool(both(guards.apiKey, guards.scopes('read', 'write')), {
    ...facts('right_order'),
    ...schemas,
    run: (_input, { auth }) => ok({ who: auth.subject }),
  }),
  defineTool(
    both(
      both(guards.apiKey, guards.rateLimit({ requests: 9, window: '1h', key: ({ auth }) => auth.keyId })),
      guards.scopes('read'),
    ),
    {
      ...facts('three_guards'),
      ...schemas,
      run: (_input, { auth }) => ok({ who: auth.keyId }),
    },
  ),
];

/** Never called: the compiler's refusal is the test. */
export const wrong = ({ guards }: ToolDeps) => [
  // @ts-expect-error: the scope guard needs what the key guard adds, so it can't come first
  defineTool(both(guards.scopes('read'), guards.apiKey), {
    ...facts('scopes_first'),
    ...schemas,
    run: () => ok({ who: '' }),
  }),
  // @ts-expect-error: nor can it stand alone
  defineTool(guards.scopes('read'), { ...facts('scopes_alone'), ...schemas, run: () => ok({ who: '' }) }),
  defineTool(guards.userJwt, {
    ...facts('no_key_id'),
    ...schemas,
    // @ts-expect-error: a user JWT says who, but there is no key
    run: (_input, { auth }) => ok({ who: auth.keyId }),
  }),
];

test('every required scope must be held, by exact string', async () => {
  await using app = await createTestApp({ tools });
  const outcome = async (...scopes: string[]) =>
    (await app.call('right_order', {}, { 'x-api-key': await insertKey(app, 'alice', scopes) })).status;
  expect(await outcome('read', 'write')).toBe(200);
  expect(await outcome('x', 'write', 'read')).toBe(200);
  expect(await outcome('read')).toBe(403);
  expect(await outcome('write')).toBe(403);
  expect(await outcome()).toBe(403);
  expect(await outcome('admin')).toBe(403);
  expect(await outcome('Read', 'write')).toBe(403);
  expect(await outcome('read:all', 'write')).toBe(403);
  expect(await outcome('read write')).toBe(403);
});

describe('scope guard', () => {
  const guard = scopesGuard(createLog({ level: 'error', clock: systemClock, write: async () => {} }));

  test('a missing list counts as empty', async () => {
    expect(await guard('read')({ requestId: 'r', auth: {} })).toMatchObject({ ok: false });
    expect(await guard()({ requestId: 'r', auth: {} })).toMatchObject({ ok: true });
  });
});

describe('both', () => {
  const addsA: Guard<object, { a: number }> = () => ok({ a: 1 });
  const addsB: Guard<{ a: number }, { b: number }> = ({ a }) => ok({ b: a + 1 });
  const refuses: Guard<object> = () => err({ code: 'missing_api_key' });

  test('adds what both add, and the second sees what the first added', async () => {
    expect(await both(addsA, addsB)({})).toEqual({ ok: true, value: { a: 1, b: 2 } });
  });

  test('the first refusal is the answer, and the second guard is not asked', async () => {
    let asked = false;
    const spy: Guard<object> = () => {
      asked = true;
      return ok({});
    };
    expect(await both(refuses, spy)({})).toEqual({ ok: false, error: { code: 'missing_api_key' } });
    expect(asked).toBe(false);
    expect(await both(spy, refuses)({})).toEqual({ ok: false, error: { code: 'missing_api_key' } });
  });

  test('works with guards that answer later', async () => {
    const later: Guard<object, { a: number }> = async () => ok({ a: 1 });
    expect(await both(later, addsB)({})).toEqual({ ok: true, value: { a: 1, b: 2 } });
  });
});
