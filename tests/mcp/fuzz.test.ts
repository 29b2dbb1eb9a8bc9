// Whatever is posted is answered, below 500, in one of the forms a client can expect, and alike on each transport.

import { expect, test } from 'bun:test';
import * as fc from 'fast-check';
import { META, openSse, post } from '../support/mcp.ts';
import { createTestApp } from '../support/test-app.ts';

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
    'notifications/cancelled',
  ),
  fc.string(),
);
const id = fc.oneof(fc.integer(), fc.string(), fc.constantFrom(null, true, 1.5, [], {}));
const params = fc.oneof(
  fc.record(
    {
      name: fc.oneof(fc.constantFrom('get_data', 'create_api_key', 'list_api_keys'), fc.string(), fc.jsonValue()),
      arguments: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue()),
      uri: fc.oneof(fc.webUrl(), fc.jsonValue()),
      cursor: fc.jsonValue(),
      protocolVersion: fc.jsonValue(),
      _meta: fc.oneof(
        fc.constant(META),
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

test('any body with any headers', async () => {
  await using app = await createTestApp();
  await fc.assert(
    fc.asyncProperty(body, headers, async (text, given) => {
      const answer = await post(app, text, given);
      expect([200, 202, 400, 404]).toContain(answer.status);
      const type = answer.headers.get('content-type');
      if (answer.status === 202) expect([answer.body, type]).toEqual(['', null]);
      else expect(['application/json', 'text/event-stream']).toContain(type ?? '');
      if (type === 'application/json') {
        const answers = Array.isArray(answer.body) ? answer.body : [answer.body];
        for (const one of answers) {
          expect(one.jsonrpc).toBe('2.0');
          expect('result' in one).toBe(!('error' in one));
          if ('id' in one) expect(['string', 'number']).toContain(typeof one.id);
        }
      }
    }),
    { numRuns: 500 },
  );
  expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
}, 60_000);

test('a message of the older revisions gets one answer, whether alone, in a batch or over SSE', async () => {
  await using app = await createTestApp();
  const session = await openSse(app);
  const older = message.filter(
    (one) => one.method !== 'initialize' && !JSON.stringify(one).includes('io.modelcontextprotocol/'),
  );
  await fc.assert(
    fc.asyncProperty(older, async (one) => {
      const alone = await post(app, one);
      const inBatch = await post(app, [one]);
      const posted = await session.post(one);
      const streamed = posted.status === 202 && alone.status !== 202 ? await session.nextMessage() : posted.body;
      expect([inBatch.body[0] ?? '', streamed]).toEqual([alone.body, alone.body]);
    }),
    { numRuns: 300 },
  );
}, 60_000);
