// An output at and above the largest: what callers get over each transport, and what the log says.

import { expect, test } from 'bun:test';
import * as v from 'valibot';
import { definePrompt, defineTool, ok } from '../../src/start/package/index.ts';
import { call, callOverWays, post, WAYS } from '../support/mcp.ts';
import { createTestApp } from '../support/test-app.ts';
import { anyone, noInput, promptFacts } from '../support/tools.ts';

const BYTES_MAX = 4.5 * 1024 * 1024;
/** Each of these is two characters in JSON, and four in the text of a result. */
const outputOf = (bytes: number) => ({
  text: `${'"'.repeat(bytes / 2 - 10)}${'x'.repeat((bytes % 2) + 20 - '{"text":""}'.length)}`,
});

test('an output of the largest size is a result, over REST, /mcp, and at the end of a batch', async () => {
  await using app = await createTestApp({
    tools: () => [tool('largest', outputOf(BYTES_MAX)), tool('large', outputOf(300_000))],
  });
  expect((await app.call('largest')).status).toBe(200);
  expect((await post(app, call('largest'))).body.result.isError).toBeUndefined();
  const { body } = await post(app, [call('large'), { ...call('largest'), id: 2 }]);
  expect(body.map(({ result }: { result?: object }) => result !== undefined)).toEqual([true, true]);
});

test('a larger output is a bug over every transport, and its line names tool and size', async () => {
  const prompt = definePrompt(anyone, {
    ...promptFacts('much_to_say'),
    arguments: v.object({}),
    run: () => ok({ messages: [{ role: 'user', content: { type: 'text', text: 'x'.repeat(BYTES_MAX) } }] }),
  });
  await using app = await createTestApp({
    tools: () => [tool('larger', outputOf(BYTES_MAX + 1))],
    prompts: () => [prompt],
  });
  const { status, body, headers } = await app.call('larger');
  expect([status, body.code, headers.get('retry-after')]).toEqual([500, 'internal', null]);
  const line = (await app.log()).at(-1);
  expect(line).toMatchObject({ level: 'error', event: 'internal error', tool: 'larger', requestId: body.requestId });
  const sizes = `larger: expected an output of at most ${BYTES_MAX} bytes, got ${BYTES_MAX + 1}`;
  expect(JSON.stringify(line)).toContain(sizes);

  for (const { error } of await callOverWays(app, 'larger')) expect(error.code).toBe(-32603);
  expect((await WAYS.legacy(app, 'prompts/get', { name: 'much_to_say' })).error.code).toBe(-32603);
  const named = (await app.log()).filter(({ event }) => event === 'internal error');
  expect(named.map(({ tool, prompt }) => tool ?? prompt)).toEqual([...Array(5).fill('larger'), 'much_to_say']);
});

test('with one character beyond Latin-1 each counts twice, as in memory', async () => {
  const wide = (chars: number) => ({ text: '€'.padEnd(chars - '{"text":""}'.length, 'x') });
  const chars = BYTES_MAX / 2;
  await using app = await createTestApp({
    tools: () => [tool('largest', wide(chars)), tool('larger', wide(chars + 1))],
  });
  expect([(await app.call('largest')).status, (await app.call('larger')).status]).toEqual([200, 500]);
});

function tool(name: string, output: { readonly text: string }) {
  return defineTool(anyone, { ...noInput(name), output: v.strictObject({ text: v.string() }), run: () => ok(output) });
}
