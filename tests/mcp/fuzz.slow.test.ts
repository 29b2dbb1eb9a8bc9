// Whatever is posted gets a response, below 500, in one of the forms a client can expect, and alike on each transport.

import { expect, test } from 'bun:test';
import * as fc from 'fast-check';
import * as v from 'valibot';
import { definePrompt, defineTool, form, ok } from '../../src/start/package/index.ts';
import { createTestApp } from '../../src/start/package/testing.ts';
import { META, openSse, post, postModern } from '../support/mcp.ts';
import { anyone, facts } from '../support/tools.ts';

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
  ...{ name: 'prompt', title: 'Prompt', description: 'A prompt.' },
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
const body = fc.oneof(
  { weight: 6, arbitrary: message.map((value) => JSON.stringify(value)) },
  { weight: 2, arbitrary: fc.array(message).map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: fc.string() },
);
const headerValue = fc.oneof(
  fc.constantFrom('2025-11-25', '2026-07-28', 'tools/call', 'get_data', '=?base64?x?='),
  fc.stringMatching(/^[ -~]*$/),
);
const headers = fc.record(
  {
    'mcp-protocol-version': headerValue,
    'mcp-method': headerValue,
    'mcp-name': headerValue,
    'x-api-key': headerValue,
    authorization: headerValue,
    accept: fc.constantFrom('application/json', 'text/event-stream', 'text/event-stream, application/json', '*/*'),
  },
  { requiredKeys: [] },
);

test('any body with any headers gets one of the expected statuses, and never a 500', async () => {
  await using app = await serve();
  await fc.assert(
    fc.asyncProperty(body, headers, async (text, given) => {
      const response = await post(app, text, given);
      expect([200, 202, 400, 404]).toContain(response.status);
      const type = response.headers.get('content-type');
      if (response.status === 202) expect([response.body, type]).toEqual(['', null]);
      else expect(['application/json', 'text/event-stream']).toContain(type ?? '');
      if (type === 'application/json') {
        const responses = Array.isArray(response.body) ? response.body : [response.body];
        for (const one of responses) {
          expect(one.jsonrpc).toBe('2.0');
          expect('result' in one).toBe(!('error' in one));
          if ('id' in one) expect(['string', 'number']).toContain(typeof one.id);
        }
      }
    }),
    { numRuns: 500 },
  );
  expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
}, 180_000);

test('a message of the older revisions gets one response, whether alone, in a batch or over SSE', async () => {
  await using app = await serve();
  const session = await openSse(app);
  const older = message.filter(
    (one) => one.method !== 'initialize' && !JSON.stringify(one).includes('io.modelcontextprotocol/'),
  );
  await fc.assert(
    fc.asyncProperty(older, async (one) => {
      const alone = await post(app, one, { accept: 'application/json' }); // else progress makes it an event stream
      const inBatch = await post(app, [one]);
      const posted = await session.post(one);
      const streamed = posted.status === 202 && alone.status !== 202 ? await session.nextMessage() : posted.body;
      expect([inBatch.body[0] ?? '', streamed]).toEqual([alone.body, alone.body]);
    }),
    { numRuns: 300 },
  );
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
