// Whatever message is posted gets a response, below 500, in one of the forms a client can expect, and alike on each transport.

import { expect, test } from 'bun:test';
import * as fc from 'fast-check';
import * as v from 'valibot';
import { definePrompt, defineTool, form, ok } from '../../src/start/package/index.ts';
import { createTestApp } from '../../src/start/package/testing.ts';
import { META, openSse, post, postModern } from '../support/mcp.ts';
import type { TestResponse } from '../support/test-app.ts';
import { anyone, facts, promptFacts } from '../support/tools.ts';

const who = form(v.strictObject({ name: v.string() }));
const asking = defineTool(anyone, {
  ...facts('asking'),
  input: v.looseObject({}),
  run(_input, { ask }) {
    const asked = ask({ who: who('Who?'), more: who('More?') });
    return asked.ok ? ok({ content: [{ type: 'text', text: JSON.stringify(asked.value) }] }) : asked;
  },
});
const prompt = definePrompt(anyone, {
  ...promptFacts('prompt'),
  arguments: v.strictObject({ city: v.optional(v.string()) }),
  run: ({ city = '' }) => ok({ messages: [{ role: 'user', content: { type: 'text', text: city } }] }),
  complete: { city: (value) => ok([value]) },
});
const serve = () => createTestApp({ tools: [() => [asking]], prompts: [() => [prompt]] });

const method = fc.oneof(
  fc.constantFrom(
    'initialize',
    'ping',
    'server/discover',
    'tools/list',
    'tools/call',
    'resources/list',
    'resources/read',
    'resources/templates/list',
    'prompts/list',
    'prompts/get',
    'completion/complete',
    'notifications/cancelled',
  ),
  fc.string(),
);
const CAPABLE = { ...META, 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } };
const id = fc.oneof(fc.integer(), fc.string(), fc.constantFrom(null, true, 1.5, [], {}));
const params = fc.oneof(
  fc.record(
    {
      name: fc.oneof(
        fc.constantFrom('get_data', 'create_api_key', 'list_api_keys', 'asking', 'prompt'),
        fc.string(),
        fc.jsonValue(),
      ),
      arguments: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue()),
      uri: fc.oneof(fc.webUrl(), fc.jsonValue()),
      cursor: fc.jsonValue(),
      ref: fc.oneof(fc.constant({ type: 'ref/prompt', name: 'prompt' }), fc.jsonValue()),
      argument: fc.oneof(fc.constant({ name: 'city', value: 'P' }), fc.jsonValue()),
      inputResponses: fc.oneof(fc.record({ who: fc.jsonValue(), more: fc.jsonValue() }), fc.jsonValue()),
      requestState: fc.oneof(fc.string(), fc.jsonValue()),
      protocolVersion: fc.jsonValue(),
      _meta: fc.oneof(
        fc.constant(META),
        fc.constant(CAPABLE),
        fc.jsonValue(),
        fc.record({ api_key: fc.jsonValue(), progressToken: fc.jsonValue() }),
      ),
    },
    { requiredKeys: [] },
  ),
  fc.jsonValue(),
);
const message = fc.record(
  { jsonrpc: fc.oneof({ weight: 9, arbitrary: fc.constant('2.0') }, fc.jsonValue()), id, method, params },
  { requiredKeys: [] },
);
/** The form of a response. What isn’t a message at all, and any headers, are in ../lab/fuzz. */
function expectForm({ status, headers, body }: TestResponse): void {
  expect([200, 202, 400, 404]).toContain(status);
  const type = headers.get('content-type');
  if (status === 202) {
    expect([body, type]).toEqual(['', null]);
    return;
  }
  expect(type).toBe('application/json');
  expect(body.jsonrpc).toBe('2.0');
  expect('result' in body).toBe(!('error' in body));
  if ('id' in body) expect(['string', 'number']).toContain(typeof body.id);
}

test('a message of the older revisions gets one response, whether alone, in a batch or over SSE', async () => {
  await using app = await serve();
  const session = await openSse(app);
  const older = message.filter(
    (one) => one.method !== 'initialize' && !JSON.stringify(one).includes('io.modelcontextprotocol/'),
  );
  await fc.assert(
    fc.asyncProperty(older, async (one) => {
      const alone = await post(app, one, { accept: 'application/json' }); // else progress makes it an event stream
      expectForm(alone);
      const inBatch = await post(app, [one]);
      const posted = await session.post(one);
      const streamed = posted.status === 202 && alone.status !== 202 ? await session.nextMessage() : posted.body;
      expect([inBatch.body[0] ?? '', streamed]).toEqual([alone.body, alone.body]);
    }),
    { numRuns: 500 },
  );
  expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
}, 180_000);

test('a call of a tool that asks gets a response, whatever its responses and its state are', async () => {
  await using app = await serve();
  const { body: first } = await postModern(app, 'tools/call', { name: 'asking' }, { meta: CAPABLE });
  const { requestState: good } = first.result;
  const state = fc.oneof(
    fc.constant(good),
    fc.tuple(fc.nat(good.length), fc.string()).map(([at, text]) => good.slice(0, at) + text + good.slice(at + 1)),
    fc.string(),
  );
  const responses = fc.dictionary(
    fc.oneof(fc.constantFrom('who', 'more', '__proto__', 'constructor'), fc.string()),
    fc.oneof(
      fc.record({ action: fc.constantFrom('accept', 'decline', 'cancel'), content: fc.jsonValue() }),
      fc.record({ more: fc.jsonValue() }),
      fc.jsonValue(),
    ),
  );
  await fc.assert(
    fc.asyncProperty(responses, fc.option(state, { nil: undefined }), async (inputResponses, requestState) => {
      const params = { name: 'asking', inputResponses, requestState };
      const { status, body } = await postModern(app, 'tools/call', params, { meta: CAPABLE });
      expect(status).toBe(200);
      if (requestState !== undefined && requestState !== good) expect(body.error.code).toBe(-32602);
      else if (body.error === undefined) expect(['complete', 'input_required']).toContain(body.result.resultType);
      else expect(body.error.code).toBe(-32602);
    }),
    { numRuns: 500 },
  );
  expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
}, 180_000);
