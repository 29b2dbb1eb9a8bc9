// traceparent (W3C Trace Context): its trace id is in the log, and tools get it; a malformed one is ignored.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok, type ToolDeps } from '../../src/start/package/index.ts';
import { createTestApp } from '../../src/start/package/testing.ts';
import { labelled } from '../support/labels.ts';
import { call, callOverWays, openSse, post, request } from '../support/mcp.ts';
import { shared } from '../support/shared.ts';
import { noInput } from '../support/tools.ts';

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT_ID = '00f067aa0ba902b7';
const SAMPLED = `00-${TRACE_ID}-${PARENT_ID}-01`;
const OTHER_ID = '0af7651916cd43dd8448eb211c80319c';
const OTHER = `00-${OTHER_ID}-${PARENT_ID}-00`;

const UNKNOWN = `sk_test_${'0'.repeat(64)}`;

const traceTool = ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    ...noInput('trace'),
    output: v.strictObject({ trace: v.any() }),
    run: (_input, { trace }) => ok({ trace: trace ?? null }),
  });

const app = await shared(createTestApp({ tools: [(deps) => [traceTool(deps)]] }));
const headers = { 'x-api-key': (await app.createKey('alice')).key };

const traceOf = async (traceparent: string, input: object = {}) =>
  (await app.call('trace', input, { ...headers, traceparent })).body.trace;

describe('the header', () => {
  test('gives a tool the trace, and the log its id', async () => {
    expect(await traceOf(SAMPLED)).toEqual({ traceId: TRACE_ID, parentId: PARENT_ID, sampled: true });
    expect(await traceOf(`01-${TRACE_ID}-${PARENT_ID}-01-more`)).toMatchObject({ traceId: TRACE_ID });
    expect(await traceOf(OTHER)).toEqual({ traceId: OTHER_ID, parentId: PARENT_ID, sampled: false });
    const lines = (await app.log()).filter(({ traceId }) => traceId === OTHER_ID);
    expect(lines.map(({ event }) => event)).toEqual(['API key authentication successful']);
  });

  test('takes tracestate along as it is; one that is malformed is left out', async () => {
    const stateOf = async (tracestate: string) =>
      (await app.call('trace', {}, { ...headers, traceparent: SAMPLED, tracestate })).body.trace.state;
    for (const state of ['vendor=a:1,other=b', 'vendor=a:1 \t,\tother=b']) expect(await stateOf(state)).toBe(state);
    expect(await stateOf('x'.repeat(513))).toBeUndefined();
    const _meta = { traceparent: OTHER, tracestate: 'in=meta' };
    expect(await traceOf(SAMPLED, { _meta })).toMatchObject({ traceId: OTHER_ID, state: 'in=meta' });
  });

  test('of a call that changes a key is in the line of the change', async () => {
    const traced = { authorization: `Bearer ${await app.token('bob')}`, traceparent: OTHER };
    const { id } = (await app.call('create_api_key', { name: 'traced', scopes: [] }, traced)).body;
    for (const tool of ['rotate_api_key', 'revoke_api_key', 'delete_api_key'])
      await app.call(tool, { keyId: id }, traced);
    const changes = (await app.log()).filter(({ userId }) => userId === 'bob');
    expect(changes.map(({ event, traceId }) => [event, traceId])).toEqual(
      ['created', 'rotated', 'revoked', 'deleted'].map((done) => [`API key ${done}`, OTHER_ID]),
    );
  });

  test('of the first use of a new secret is in the line of the rotation', async () => {
    const user = { authorization: `Bearer ${await app.token('carol')}` };
    const { id } = (await app.call('create_api_key', { name: 'traced', scopes: [] }, user)).body;
    const { key } = (await app.call('rotate_api_key', { keyId: id }, user)).body;
    await app.call('whoami', {}, { 'x-api-key': key, traceparent: OTHER });
    const completed = (await app.log()).find(({ event }) => event === 'API key rotation completed');
    expect(completed).toMatchObject({ keyId: id, traceId: OTHER_ID });
  });

  test('of a refused call is in the log too', async () => {
    await app.call('get_data', {}, { 'x-api-key': 'no key', traceparent: OTHER });
    expect((await app.log()).at(-1)).toMatchObject({ event: 'Invalid or expired API key', traceId: OTHER_ID });
  });

  test.each(
    labelled([
      '',
      'x',
      SAMPLED.toUpperCase(),
      `ff-${TRACE_ID}-${PARENT_ID}-01`,
      `00-${'0'.repeat(32)}-${PARENT_ID}-01`,
      `00-${TRACE_ID}-${'0'.repeat(16)}-01`,
      `${SAMPLED}-more`,
      `00-${TRACE_ID}-${PARENT_ID}`,
      `01-${TRACE_ID}-${PARENT_ID}-01-${'x'.repeat(300)}`,
    ]),
  )('%s is ignored', async (_label, traceparent) => {
    expect(await traceOf(traceparent)).toBeNull();
  });
});

test('a trace in _meta comes before the header, over REST and each way of MCP', async () => {
  const meta = { _meta: { traceparent: OTHER } };
  expect(await traceOf(SAMPLED, meta)).toMatchObject({ traceId: OTHER_ID });
  expect(await traceOf(SAMPLED, { _meta: { traceparent: 'malformed' } })).toMatchObject({ traceId: TRACE_ID });
  for (const { result } of await callOverWays(app, 'trace', {
    headers: { ...headers, traceparent: SAMPLED },
    ...meta,
  })) {
    expect(result.structuredContent.trace).toMatchObject({ traceId: OTHER_ID });
  }
});

test('the log has the trace in _meta of any MCP message, also of one that is refused', async () => {
  await using logged = await createTestApp({ env: { ACCESS_LOG: '1', OAUTH_REDIRECTS: 'loopback' } });
  const traced = { _meta: { traceparent: OTHER } };
  const seen = (await logged.log()).length;
  await post(logged, request('tools/list', traced), { 'x-api-key': UNKNOWN, traceparent: SAMPLED });
  await post(logged, call('get_data', {}, traced), { authorization: `Bearer ${UNKNOWN}` });
  await post(logged, request('no/such/method', traced), { 'mcp-protocol-version': '2027-01-01' });
  const session = await openSse(logged);
  await session.post(request('ping', traced));
  const lines = (await logged.log()).slice(seen).filter(({ event, route }) => event !== 'request' || route !== '/sse');
  expect(lines.map(({ event, status, traceId }) => [event, status, traceId])).toEqual([
    ['request', 200, OTHER_ID],
    ['Invalid or expired API key', undefined, OTHER_ID],
    ['request', 401, OTHER_ID],
    ['request', 401, OTHER_ID],
    ['request', 202, OTHER_ID],
  ]);
});
