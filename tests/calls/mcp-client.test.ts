// `mcp-key-server/testing`, as tests of tools use it: above all `app.mcp`.

import { expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok, sequence, type ToolDeps } from '../../src/start/package/index.ts';
import { createTestApp } from '../../src/start/package/testing.ts';
import closeOrder from '../recipes/tools/close-order.ts';
import countLines from '../recipes/tools/count-lines.ts';
import { shared } from '../support/shared.ts';
import { anyone, facts, noInput } from '../support/tools.ts';

const app = await shared(createTestApp({ tools: [closeOrder, countLines] }));
const { key } = await app.createKey('alice');

const close = (options?: object, era?: string) =>
  app.mcp({ key, ...(era !== undefined && { era }) }).call('close_order', { orderId: '7' }, options);

test.each(['2026-07-28', '2025-11-25', '2025-03-26'])('in %s it calls and lists, with progress', async (era) => {
  const mcp = app.mcp({ key, era });
  const counted = await mcp.call('count_lines', { id: 'terms' });
  expect(counted).toMatchObject({ content: [{ type: 'text', text: '3 lines' }], asked: [] });
  expect(counted.progress.at(-1)).toEqual({ progress: 3, total: 3 });
  expect((await mcp.list()).map(({ name }) => name)).toContain('close_order');
  const user = app.mcp({ token: await app.token('alice'), era });
  expect((await user.call('list_api_keys')).structuredContent.keys).toHaveLength(1);
  expect((await user.list()).map(({ name }) => name)).toContain('list_api_keys');
});

test('it answers what a tool asks: content accepts, an action stands for itself, nothing cancels', async () => {
  const accepted = await close({ answers: { closing: { reason: 'sent' } } });
  expect(accepted.structuredContent).toEqual({ closed: true });
  expect(accepted.asked).toEqual([
    { name: 'closing', message: 'Close the order 7?', requestedSchema: expect.objectContaining({ type: 'object' }) },
  ]);
  for (const answers of [{ closing: { action: 'decline' } }, {}]) {
    const { structuredContent, asked } = await close({ answers });
    expect([structuredContent, asked.length]).toEqual([{ closed: false }, 1]);
  }
  for (const era of ['2026-07-28', '2025-11-25']) {
    const { structuredContent, asked } = await close(undefined, era);
    expect([structuredContent, asked]).toEqual([{ closed: false }, []]); // nobody can be asked
  }
});

test.each([
  ['of no question', { closng: { reason: 'sent' } }, 'answers.closng: no question has this name; asked were closing'],
  ['without a field', { closing: {} }, 'answers.closing: reason: required'],
  ['with a wrong field', { closing: { reson: '' } }, 'answers.closing: reson: unknown field; reason: required'],
  ['that is none', { closing: null }, 'answers.closing: expected content, or { action }, got null'],
  ['that is an action only', { closing: 'decline' }, 'answers.closing: expected content, or { action }, got "decline"'],
  ['without content', { closing: { action: 'accept' } }, 'answers.closing: reason: required'],
  [
    'with a wrong action',
    { closing: { action: 'acept' } },
    'answers.closing: expected the action accept, decline, cancel, got "acept"',
  ],
  ['with a wrong value', { closing: { reason: 5 } }, 'A response does not fit its request:\n- closing.reason: '],
])('an answer %s throws an Error that says so', async (_, answers, message) => {
  await expect(close({ answers })).rejects.toThrow(message);
});

test('a failure of the tool is a result, one of the protocol is thrown, and a call can be given up', async () => {
  const mcp = app.mcp({ key });
  expect((await mcp.call('count_lines', { id: 'lost' })).isError).toBe(true);
  expect((await app.mcp({ key: 'wrong' }).call('count_lines', { id: 'terms' })).isError).toBe(true);
  const unknown = await mcp.call('no_such_tool').catch((error) => error);
  expect([unknown instanceof Error, unknown.code]).toEqual([true, -32602]);
  const stopping = new AbortController();
  const given = mcp.call('count_lines', { id: 'terms' }, { signal: stopping.signal }).catch((error) => error.name);
  stopping.abort();
  expect(await given).toBe('AbortError');
});

test('a result has any character, also those at which lines end outside of JSON', async () => {
  const says = defineTool(anyone, {
    ...noInput('says'),
    run: () => ok({ content: [{ type: 'text', text: 'a\u2028b\u2029c\nd\u0085e' }] }),
  });
  await using saying = await createTestApp({ tools: [() => says] });
  const { content } = await saying.mcp({}).call('says');
  expect(content).toEqual([{ type: 'text', text: 'a\u2028b\u2029c\nd\u0085e' }]);
});

test('its clock refuses what would stop it for good', () => {
  const wrong = [undefined, Number.NaN, '1000'] as number[];
  for (const move of ['advance', 'setNow', 'sleep'] as const) {
    for (const ms of wrong) expect(() => app.clock[move](ms)).toThrow(`clock.${move}: expected milliseconds, got `);
  }
});

test('a key that cannot be created throws an Error that says why', async () => {
  const create = (input: object) => app.createKey('alice', { ...input });
  await expect(create({ scope: ['read'] })).rejects.toThrow(
    'create_api_key responded 400: Unknown field; the fields are name, ',
  );
  await expect(create({ scopes: 'read', expiresInDays: 0 })).rejects.toThrow(/400: scopes: .+; expiresInDays: /);
});

test.each([
  [
    'a module',
    { tools: [{ default: closeOrder }] },
    'tools[0]: expected a function (deps: ToolDeps) => Tool or Tool[], got object',
  ],
  ['no array', { tools: closeOrder }, 'tools: expected an array, got function'],
  ['a misspelt list', { tool: [closeOrder] }, 'tool: unknown field; the fields are tools, prompts, resources'],
  ['prompts', { prompts: [{}] }, 'prompts[0]: expected a function (deps: ToolDeps) => Prompt or Prompt[], got object'],
])('%s in place of what tool files export throws an Error that says so', async (_, options, message) => {
  await expect(createTestApp(options as object)).rejects.toThrow(message);
});

test.each(['2026-07-28', '2025-11-25'])('in %s it calls a tool that marks parameters for headers', async (era) => {
  const marked = (schema: v.GenericSchema, name: string) =>
    v.optional(v.pipe(schema, v.metadata({ 'x-mcp-header': name })));
  const input = v.strictObject({
    region: marked(v.string(), 'Region'),
    limit: marked(v.pipe(v.number(), v.integer()), 'Limit'),
    dry: marked(v.boolean(), 'Dry'),
    free: v.optional(v.string()),
  });
  const query = ({ guards }: ToolDeps) =>
    defineTool(sequence(guards.apiKey, guards.scopes('read')), {
      ...facts('query'),
      input,
      run: (given) => ok({ content: [{ type: 'text', text: JSON.stringify(given) }] }),
    });
  await using marking = await createTestApp({ tools: [query] });
  const { key: good } = await marking.createKey('alice');
  const mcp = marking.mcp({ key: good, era });
  const regions = ['eu', 'zürich', '', ' eu ', 'a b', '=?base64?ZXU=?=', 'a\nb'].map((region) => ({ region }));
  for (const given of [
    ...regions,
    { limit: -42 },
    { dry: false },
    { region: 'eu', limit: 0, dry: true, free: 'x' },
    {},
  ]) {
    const { content } = await mcp.call('query', given);
    expect(JSON.parse(content[0].text)).toEqual(given);
  }
  const { key: narrow } = await marking.createKey('alice', { scopes: [] });
  const refused = await marking.mcp({ key: narrow, era }).call('query', { region: 'eu' });
  expect([refused.isError, refused.content[0].text]).toEqual([true, 'Insufficient permissions']);
});

test.each([
  ['another secret', { JWT_SECRET: 'another secret, of more than 32 bytes' }],
  ['an issuer and an audience', { JWT_ISSUER: 'https://issuer.example', JWT_AUDIENCE: 'https://keys.example' }],
])('an app with %s accepts the tokens that it makes', async (_, env) => {
  await using own = await createTestApp({ env });
  const { id } = await own.createKey('alice');
  const listed = await own.call('list_api_keys', {}, { Authorization: `Bearer ${await own.token('alice')}` });
  expect(listed.body.keys).toMatchObject([{ id }]);
  const wrong = await own.token('alice', { exp: 1 });
  expect((await own.call('list_api_keys', {}, { Authorization: `Bearer ${wrong}` })).status).toBe(401);
});
