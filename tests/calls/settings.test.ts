// Settings of tools: which variables they get, and what stops the start.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok, type SettingsSchema, type ToolDeps } from '../../src/start/package/index.ts';
import { createTestApp, type Env, failureOf } from '../support/test-app.ts';
import { anyone, noInput } from '../support/tools.ts';

/** An app with a tool that returns its settings. */
function appWith(schema: SettingsSchema, env: Env) {
  const tools = ({ settings }: ToolDeps) => {
    const found = settings(schema);
    const content = [{ type: 'text' as const, text: JSON.stringify(found) }];
    return [defineTool(anyone, { ...noInput('show'), run: () => ok({ content }) })];
  };
  return createTestApp({ tools, env });
}

const SHOP = v.object({
  TOOL_SHOP_URL: v.pipe(v.string(), v.url('Expected the URL of the shop')),
  TOOL_SHOP_TIMEOUT_MS: v.optional(v.pipe(v.string(), v.toNumber(), v.integer()), '1000'),
});

test.each([
  ['are those that the tool declares, made what its schema makes of them', { TOOL_SHOP_TIMEOUT_MS: '250' }, 250],
  ['have defaults, also where a variable is set to nothing', { TOOL_SHOP_TIMEOUT_MS: '' }, 1000],
])('%s', async (_what, env, TOOL_SHOP_TIMEOUT_MS) => {
  await using app = await appWith(SHOP, { TOOL_SHOP_URL: 'https://shop.example', TOOL_OTHER: 'x', ...env });
  const { body } = await app.call('show');
  expect(JSON.parse(body.content[0].text)).toEqual({ TOOL_SHOP_URL: 'https://shop.example', TOOL_SHOP_TIMEOUT_MS });
});

describe('the start stops, and shows no value,', () => {
  const json = v.pipe(v.string(), v.parseJson());
  const asUrl = v.pipe(
    v.string(),
    v.transform((text) => new URL(text)),
  );
  const strict = v.strictObject({ TOOL_KEY: v.pipe(v.string(), v.minLength(8)) });
  test.each<[string, SettingsSchema, Env, string]>([
    ['for one that is missing', SHOP, {}, 'TOOL_SHOP_URL: expected a value, but it is not set'],
    [
      'for one that is not UTF-8',
      SHOP,
      { TOOL_SHOP_URL: 'https://x\u{fffd}' },
      'TOOL_SHOP_URL: expected text in UTF-8',
    ],
    ['for one that is empty', SHOP, { TOOL_SHOP_URL: '' }, 'TOOL_SHOP_URL: expected a value, but it is not set'],
    ['for a missing one of a strict schema', strict, {}, 'TOOL_KEY: expected a value, but it is not set'],
    ['for one that is wrong', SHOP, { TOOL_SHOP_URL: 'secret value' }, 'TOOL_SHOP_URL: expected the URL of the shop'],
    ['in words of its own where the schema has none', strict, { TOOL_KEY: 'hunter2' }, 'TOOL_KEY: expected length >=8'],
    [
      'for all of them at once',
      SHOP,
      { TOOL_SHOP_TIMEOUT_MS: 'soon' },
      'TOOL_SHOP_URL: expected a value, but it is not set; TOOL_SHOP_TIMEOUT_MS: expected a number',
    ],
    ['for one that is no JSON', v.object({ TOOL_A: json }), { TOOL_A: 'hunter2' }, 'TOOL_A: expected json'],
    [
      'for one at which a function of the schema throws',
      v.object({ TOOL_NAME: v.string(), TOOL_A: v.pipe(v.string(), v.transform(JSON.parse)) }),
      { TOOL_NAME: 'shop', TOOL_A: 'hunter2' },
      'TOOL_A: expected another value',
    ],
    [
      'for all at which a function throws',
      v.object({ TOOL_A: asUrl, TOOL_B: v.optional(asUrl), TOOL_C: asUrl }),
      { TOOL_A: 'hunter2', TOOL_C: 'hunter3' },
      'TOOL_A, TOOL_C: expected another value',
    ],
    [
      'when a function throws at all of them together',
      v.pipe(
        v.object({ TOOL_A: v.string() }),
        v.check(({ TOOL_A }) => JSON.parse(TOOL_A)),
      ) as unknown as SettingsSchema,
      { TOOL_A: 'hunter2' },
      'settings: expected another value',
    ],
    [
      'for one that its own message would quote',
      v.object({
        TOOL_KEY: v.pipe(
          v.string(),
          v.check(
            () => false,
            ({ input }) => `No key: ${input}`,
          ),
        ),
      }),
      { TOOL_KEY: 'hunter22' },
      'TOOL_KEY: no key: …',
    ],
    [
      'for two that do not fit together, whose message would quote them',
      v.pipe(
        v.object({ TOOL_USER: v.string(), TOOL_KEY: v.string() }),
        v.check(
          () => false,
          ({ input: { TOOL_USER, TOOL_KEY } }) => `No key ${TOOL_KEY} of ${TOOL_USER}`,
        ),
      ) as unknown as SettingsSchema,
      { TOOL_USER: 'hunter22 himself', TOOL_KEY: 'hunter22' },
      'settings: no key … of …',
    ],
    [
      'without a schema',
      undefined as unknown as SettingsSchema,
      {},
      'settings: expected a schema of valibot 1, like v.strictObject({}), got undefined',
    ],
    [
      'for the schema of no object',
      v.string() as unknown as SettingsSchema,
      {},
      'settings: expected the schema of an object, like v.strictObject({}), got v.string()',
    ],
    [
      'for a schema that would let anything pass',
      v.objectAsync({ TOOL_KEY: v.string() }) as unknown as SettingsSchema,
      { TOOL_KEY: 'hunter2' },
      'settings: expected a schema that decides at once, got an async part',
    ],
    [
      'for a field that is no schema',
      v.object({ TOOL_KEY: v.string as never }),
      { TOOL_KEY: 'hunter2' },
      'settings: TOOL_KEY: expected a schema, like v.string(), got function',
    ],
    [
      'for a name that does not begin with TOOL_',
      v.object({ JWT_SECRET: v.string() }),
      { JWT_SECRET: 'a secret of more than thirty-two bytes' },
      'settings: expected names like TOOL_SHOP_URL, got "JWT_SECRET"',
    ],
  ])('%s', async (_what, schema, env, message) => {
    const failure = await failureOf(appWith(schema, env));
    expect(failure).toContain(message);
    for (const value of Object.values(env)) if (value) expect(failure).not.toContain(value);
  });
});
