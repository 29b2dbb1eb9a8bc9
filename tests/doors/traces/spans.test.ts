// Spans of calls, as OpenTelemetry's own classes decode them.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import {
  type Call,
  defineTool,
  err,
  failure,
  type Guard,
  ok,
  sequence,
  type ToolDeps,
} from '../../../src/start/package/index.ts';
import { type Collector, type ReceivedSpan, startCollector } from '../../support/collector.ts';
import { call, fetchMcp, modern, openSse, post, request } from '../../support/mcp.ts';
import { shared } from '../../support/shared.ts';
import { startSlowStore } from '../../support/slow-store.ts';
import { bearer, createTestApp, type Env, type TestApp } from '../../support/test-app.ts';
import { anyone, facts, noInput } from '../../support/tools.ts';
import { waitFor } from '../../support/wait-for.ts';

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT_ID = '00f067aa0ba902b7';
const SAMPLED = `00-${TRACE_ID}-${PARENT_ID}-01`;
const NOT_SAMPLED = `00-${TRACE_ID}-${PARENT_ID}-00`;
const UNKNOWN = `sk_test_${'0'.repeat(64)}`;

const traceOutput = { input: v.strictObject({}), output: v.strictObject({ trace: v.any() }) };

const tools = ({ guards }: ToolDeps) => [
  defineTool(guards.apiKey, {
    ...facts('trace'),
    ...traceOutput,
    run: (_input, { trace }) => ok({ trace: trace ?? null }),
  }),
  defineTool(anyone, { ...facts('open'), ...traceOutput, run: (_input, { trace }) => ok({ trace: trace ?? null }) }),
  defineTool(guards.apiKey, {
    ...noInput('failing'),
    run: () => err(failure({ status: 502, code: 'shop_down', detail: 'The shop is closed' })),
  }),
];

const startApp = (collector: Collector, env: Env = {}) =>
  createTestApp({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...env },
    toolFiles: [{ file: 'traced', make: tools }],
  });

/** Has what waits sent, and returns the spans that came since the last time. */
async function sent(app: TestApp, collector: Collector, atLeast = 0): Promise<readonly ReceivedSpan[]> {
  await Bun.sleep(20); // what makes no span must have had the time to make one
  const before = seen.get(collector) ?? 0;
  app.clock.advance(5000);
  await waitFor(() => collector.spans().length - before >= atLeast);
  await Bun.sleep(20);
  const spans = collector.spans().slice(before);
  seen.set(collector, before + spans.length);
  return spans;
}
const seen = new WeakMap<Collector, number>();

describe('by default', async () => {
  const collector = await shared(startCollector());
  const app = await shared(startApp(collector));
  const { id, key } = await app.createKey('alice', { name: 'a name that is nobody’s business' });
  await sent(app, collector, 1);
  const own = () => ({ 'x-api-key': key });

  test('a call over REST is a span by the conventions for HTTP', async () => {
    const { status } = await app.call('get_data', {}, own());
    expect(status).toBe(200);
    const [span, ...more] = await sent(app, collector, 1);
    expect(more).toEqual([]);
    expect(span).toMatchObject({
      name: 'POST /tools/{tool}',
      kind: 2,
      status: {},
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/tools/{tool}',
        'http.response.status_code': '200',
        'url.path': '/tools/get_data',
        'url.scheme': 'http',
        'client.address': '127.0.0.1',
        'mcp_keys.key.id': id,
        'mcp_keys.cost': '1',
      },
    });
    expect(span?.parentSpanId).toBeUndefined();
    const [started, ended] = [BigInt(span?.startTimeUnixNano ?? 0), BigInt(span?.endTimeUnixNano ?? 0)];
    expect(ended - started).toBeGreaterThanOrEqual(0n);
    expect(started / 1_000_000n).toBeGreaterThan(1_600_000_000_000n);
  });

  test('the resource says which service it is', () => {
    expect(collector.requests[0]).toMatchObject({
      path: '/v1/traces',
      resource: {
        'service.name': 'mcp-key-server',
        'service.version': '1.0.0',
        'service.instance.id': expect.stringMatching(/^[0-9a-f]{12}$/),
      },
    });
    expect(collector.requests[0]?.headers.get('content-type')).toBe('application/json');
    expect(collector.requests[0]?.headers.get('content-encoding')).toBeNull();
  });

  const listed = { 'mcp.method.name': 'tools/list', 'mcp_keys.cost': '1' };
  const called = { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'get_data', 'mcp_keys.cost': '1' };
  const client = { 'io.modelcontextprotocol/clientInfo': { name: 'host', version: '2' } };
  type Ask = () => Promise<unknown>;
  const inModern = (method: string, params: Record<string, unknown>) => async () => {
    const { body, headers } = modern(method, params, client);
    return post(app, body, { ...headers, ...own() });
  };
  const OF_MODERN = { 'mcp.protocol.version': '2026-07-28', 'mcp_keys.client': 'host/2' };
  test.each<[string, Ask, readonly [string, object][]]>([
    ['a call', () => post(app, call('get_data'), own()), [['tools/call get_data', called]]],
    [
      'a call of 2026-07-28',
      inModern('tools/call', { name: 'get_data' }),
      [['tools/call get_data', { ...called, ...OF_MODERN }]],
    ],
    ['a list', () => post(app, request('tools/list'), own()), [['tools/list', listed]]],
    ['a list of 2026-07-28', inModern('tools/list', {}), [['tools/list', { ...listed, ...OF_MODERN }]]],
    ['a ping', () => post(app, request('ping'), own()), [['ping', { 'mcp.method.name': 'ping' }]]],
    [
      'a method that is not there',
      () => post(app, request('sk_live_made_up'), own()),
      [['MCP', { 'mcp.method.name': '_OTHER', 'error.type': '-32601' }]],
    ],
    [
      'a tool that is not there',
      () => post(app, call('sk_live_made_up'), own()),
      [['tools/call', { 'mcp.method.name': 'tools/call', 'error.type': '-32602' }]],
    ],
    [
      'a call that is refused before it runs',
      () => post(app, call('get_data', []), own()),
      [['tools/call get_data', { ...called, 'error.type': '-32602' }]],
    ],
    [
      'a request whose headers differ from its body',
      async () => {
        const { body, headers } = modern('tools/call', { name: 'get_data' }, client);
        return post(app, body, { ...headers, ...own(), 'mcp-name': 'whoami' });
      },
      [['tools/call get_data', { ...called, ...OF_MODERN, 'error.type': '-32020' }]],
    ],
    [
      'a request of a revision that is not there',
      () => post(app, request('sk_live_made_up'), { ...own(), 'mcp-protocol-version': '2027-01-01' }),
      [['MCP', { 'mcp.method.name': '_OTHER', 'error.type': '-32022' }]],
    ],
    [
      'a batch',
      () => post(app, [call('get_data'), { ...request('tools/list'), id: 2 }], own()),
      [
        ['tools/call get_data', called],
        ['tools/list', listed],
      ],
    ],
    [
      'a failure in the words of a tool',
      () => post(app, call('failing'), own()),
      [['tools/call failing', { 'error.type': 'tool_error', 'mcp_keys.error': 'shop_down' }]],
    ],
    [
      'bad input',
      () => post(app, call('get_data', { odd: 1 }), own()),
      [['tools/call get_data', { 'error.type': 'tool_error', 'mcp_keys.error': 'invalid_input' }]],
    ],
    [
      'a call with a user token',
      async () => post(app, call('list_api_keys'), await bearer(app, 'alice')),
      [['tools/call list_api_keys', { 'mcp.method.name': 'tools/call' }]],
    ],
    [
      'a key in the metadata',
      () => post(app, call('get_data', {}, { _meta: { api_key: key } })),
      [['tools/call get_data', called]],
    ],
    [
      'a call with progress',
      () => fetchMcp(app, call('get_data', {}, { _meta: { progressToken: 1 } }), own()).then((r) => r.text()),
      [['tools/call get_data', called]],
    ],
    [
      'a tool for everybody, with a key',
      () => post(app, call('open'), own()),
      [['tools/call open', { 'gen_ai.tool.name': 'open' }]],
    ],
    [
      'a tool for everybody, with a user token',
      async () => post(app, call('open'), await bearer(app, 'alice')),
      [['tools/call open', { 'gen_ai.tool.name': 'open' }]],
    ],
  ])('%s over MCP', async (_what, ask, expected) => {
    await ask();
    const spans = await sent(app, collector, expected.length);
    expect(spans).toMatchObject(expected.map(([name, attributes]) => ({ name, kind: 2, attributes })));
    for (const { attributes, status } of spans) {
      expect(status).toEqual(attributes['error.type'] === undefined ? {} : { code: 2 });
      expect(attributes['http.route']).toBeUndefined();
    }
  });

  test('on /sse the session says which client it is', async () => {
    const session = await openSse(app, own());
    const clientInfo = { name: 'old host', version: '1' };
    await session.post(request('initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo }));
    await session.post(call('get_data'));
    await session.nextMessage();
    await session.nextMessage();
    const shared = { 'mcp.protocol.version': '2024-11-05', 'mcp_keys.client': 'old host/1', 'mcp_keys.key.id': id };
    expect(await sent(app, collector, 2)).toMatchObject([
      { name: 'initialize', attributes: { ...shared, 'mcp.method.name': 'initialize' } },
      { name: 'tools/call get_data', attributes: { ...shared, ...called } },
    ]);
    await session.drop();
  });

  test('/verify and /introspect', async () => {
    const service = (await app.keys('create', '--user', 'svc', '--name', 'svc', '--scope', 'introspect')).trim();
    await fetch(`${app.url}/verify?scope=read&cost=3`, { headers: own() });
    await fetch(`${app.url}/verify`, { method: 'PROPFIND', headers: own() });
    await fetch(`${app.url}/verify?scope=write`, { headers: own() });
    await fetch(`${app.url}/introspect`, {
      method: 'POST',
      body: new URLSearchParams({ token: UNKNOWN, lease: '', cost: '2' }),
      headers: { authorization: `Bearer ${service}` },
    });
    expect(await sent(app, collector, 4)).toMatchObject([
      {
        name: 'GET /verify',
        attributes: {
          'http.response.status_code': '200',
          'mcp_keys.cost': '3',
          'url.path': '/verify',
          'client.address': '127.0.0.1',
        },
      },
      { name: 'HTTP /verify', attributes: { 'http.request.method': '_OTHER' } },
      {
        name: 'GET /verify',
        attributes: { 'http.response.status_code': '403', 'mcp_keys.error': 'insufficient_scope' },
      },
      {
        name: 'POST /introspect',
        attributes: { 'http.route': '/introspect', 'http.response.status_code': '200', 'mcp_keys.cost': '2' },
      },
    ]);
  });

  test('a failure of 500 and above is an error, with its status as the type', async () => {
    expect((await app.call('failing', {}, own())).status).toBe(502);
    const attributes = { 'error.type': '502', 'mcp_keys.error': 'shop_down', 'http.response.status_code': '502' };
    expect(await sent(app, collector, 1)).toMatchObject([{ status: { code: 2 }, attributes }]);
  });

  const WITH = { traceparent: SAMPLED };
  test.each<[string, Ask]>([
    ['no key', () => app.call('get_data', {}, WITH)],
    ['an unknown key', () => app.call('get_data', {}, { ...WITH, 'x-api-key': UNKNOWN })],
    ['an unknown key over MCP', () => post(app, call('get_data'), { ...WITH, 'x-api-key': UNKNOWN })],
    ['a list without a credential', () => post(app, request('tools/list'), WITH)],
    [
      'headers that differ from the body, with an unknown key',
      () => post(app, request('tools/list'), { ...WITH, 'x-api-key': UNKNOWN, 'mcp-protocol-version': '2027-01-01' }),
    ],
    ['a list with an unknown key', () => post(app, request('tools/list'), { ...WITH, 'x-api-key': UNKNOWN })],
    ['a tool for everybody, without a credential', () => app.call('open', {}, WITH)],
    ['a tool for everybody, with an unknown key', () => app.call('open', {}, { ...WITH, 'x-api-key': UNKNOWN })],
    ['a bad user token', () => app.call('list_api_keys', {}, { ...WITH, authorization: 'Bearer x.y.z' })],
    ['no tool', () => app.call('no_such_tool', {}, { ...WITH, ...own() })],
    ['another method', () => fetch(`${app.url}/tools/get_data`, { headers: { ...WITH, ...own() } })],
    ['a refused origin', () => app.call('get_data', {}, { ...WITH, ...own(), origin: 'https://evil.example' })],
    ['/verify without a key', () => fetch(`${app.url}/verify`, { headers: WITH })],
    ['/verify with an unknown key', () => fetch(`${app.url}/verify`, { headers: { ...WITH, 'x-api-key': UNKNOWN } })],
    ['health', () => fetch(`${app.url}/mcp/health`, { headers: { ...WITH, ...own() } })],
    ['the start page', () => fetch(app.url, { headers: { ...WITH, ...own() } })],
    [
      'a list that is not sampled by its metadata, which goes before the header',
      () => post(app, request('tools/list', { _meta: { traceparent: NOT_SAMPLED } }), { ...WITH, ...own() }),
    ],
    ['a notification', () => post(app, { jsonrpc: '2.0', method: 'notifications/initialized' }, { ...WITH, ...own() })],
  ])('no span: %s', async (_what, ask) => {
    await ask();
    expect(await sent(app, collector)).toEqual([]);
  });

  test('a tool passes on its own span as the parent; without a span it passes on what came', async () => {
    const tracestate = 'a="b\\c"'; // as JSON it needs escapes
    const sampled = (await app.call('trace', {}, { ...own(), traceparent: SAMPLED, tracestate })).body.trace;
    const alone = (await app.call('trace', {}, own())).body.trace;
    const not = (await app.call('trace', {}, { ...own(), traceparent: NOT_SAMPLED })).body.trace;
    const open = (await app.call('open', {}, { traceparent: SAMPLED })).body.trace;
    const meta = { _meta: { traceparent: SAMPLED } };
    const inMeta = (await post(app, call('trace', {}, meta), { ...own(), traceparent: NOT_SAMPLED })).body.result
      .structuredContent.trace;
    const spans = await sent(app, collector, 3);
    expect(spans.map(({ traceId, parentSpanId, traceState }) => [traceId, parentSpanId, traceState])).toEqual([
      [TRACE_ID, PARENT_ID, tracestate],
      [alone.traceId, undefined, undefined],
      [TRACE_ID, PARENT_ID, undefined],
    ]);
    expect([sampled, alone, inMeta]).toEqual([
      { traceId: TRACE_ID, parentId: spans[0]?.spanId, sampled: true, state: tracestate },
      { traceId: spans[1]?.traceId, parentId: spans[1]?.spanId, sampled: true },
      { traceId: TRACE_ID, parentId: spans[2]?.spanId, sampled: true },
    ]);
    expect(not).toEqual({ traceId: TRACE_ID, parentId: PARENT_ID, sampled: false });
    expect(open).toEqual({ traceId: TRACE_ID, parentId: PARENT_ID, sampled: true });
  });

  test('no byte has a key, a token, an owner, an input, an output, a query, or a key’s name', async () => {
    const token = await app.token('alice');
    await app.call('create_api_key', { name: 'input-word', scopes: [] }, { authorization: `Bearer ${token}` });
    await fetch(`${app.url}/verify?scope=read&path=/query-word`, { headers: own() });
    await post(app, call('whoami', { odd: 'input-word' }), own());
    await app.call('trace', {}, { ...own(), traceparent: SAMPLED, tracestate: `a=${key}` });
    await post(app, call('trace', {}, { _meta: { traceparent: SAMPLED, tracestate: `a=1,b=${token}` } }), own());
    await sent(app, collector, 5);
    const text = collector.requests.map((one) => one.text).join('\n');
    for (const word of [key, token, 'alice', 'input-word', 'query-word', 'nobody’s business', 'sample', UNKNOWN]) {
      expect(text).not.toContain(word);
    }
  });
});

test('what a guard of one’s own says of the caller has any type: the span is sent, the line written, the result given', async () => {
  using collector = startCollector();
  const odd = { keyId: { n: 1.5 }, keyName: 7, subject: ['x'] };
  const textless = { keyId: Object.create(null) };
  let added: object = odd;
  const adding: Guard<Call> = () => ok({ auth: added });
  await using app = await createTestApp({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ACCESS_LOG: '1' },
    toolFiles: [
      {
        file: 'odd',
        make: ({ guards }) => [
          defineTool(sequence(guards.userJwt, adding), {
            ...traceOutput,
            ...facts('odd'),
            run: () => ok({ trace: null }),
          }),
        ],
      },
    ],
  });
  const alice = await bearer(app, 'alice');
  expect((await app.call('odd', {}, alice)).status).toBe(200);
  expect((await post(app, call('odd'), alice)).body.result.structuredContent).toEqual({ trace: null });
  const shown = { 'mcp_keys.key.id': '[object Object]' };
  expect(await sent(app, collector, 2)).toMatchObject([{ attributes: shown }, { attributes: shown }]);
  const lines = (await app.log()).filter(({ event }) => event === 'request');
  expect(lines).toMatchObject([
    { keyId: odd.keyId, keyName: '7' },
    { keyId: odd.keyId, keyName: '7' },
  ]);
  added = textless;
  expect((await app.call('odd', {}, alice)).status).toBe(200);
  expect((await post(app, call('odd'), alice)).body.result.structuredContent).toEqual({ trace: null });
  expect(await sent(app, collector, 2)).toMatchObject([{ attributes: shown }, { attributes: shown }]);
});

test('a span ends with its reply, however long the look at a credential takes that no guard demands', async () => {
  using collector = startCollector();
  await using slow = await startSlowStore();
  await using app = await createTestApp({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }, store: slow.store });
  await using elsewhere = await createTestApp({ store: slow.store });
  const { id, key } = await elsewhere.createKey('alice');
  await app.createKey('bob'); // its feed is current
  const gate = slow.delayReadOf(key);
  expect((await post(app, request('ping', { _meta: { api_key: key } }))).status).toBe(200);
  await gate.made;
  app.clock.advance(400);
  gate.release();
  expect((await app.call('whoami', {}, { 'x-api-key': key })).status).toBe(200); // by now that look has ended
  const [made, pinged] = await sent(app, collector, 3);
  expect([made?.name, pinged?.name]).toEqual(['POST /tools/{tool}', 'ping']);
  expect(pinged?.attributes['mcp_keys.key.id']).toBe(id);
  expect(pinged?.endTimeUnixNano).toBe(pinged?.startTimeUnixNano);
  expect(pinged?.endTimeUnixNano).toBe(made?.endTimeUnixNano);
}, 180_000);

describe('the sampler', () => {
  const OFF = 'always_off';
  test.each<[string | undefined, string | undefined, number, number, number]>([
    // calls with a sampled parent, one that is not, and none: how many spans of 40 each
    [undefined, undefined, 40, 0, 40],
    ['parentbased_always_on', undefined, 40, 0, 40],
    ['parentbased_always_off', undefined, 40, 0, 0],
    ['always_on', undefined, 40, 40, 40],
    [OFF, undefined, 0, 0, 0],
    ['parentbased_traceidratio', '0', 40, 0, 0],
    ['traceidratio', '1', 40, 40, 40],
    ['traceidratio', undefined, 40, 40, 40],
    ['no such sampler', '0', 40, 0, 40],
    ['traceidratio', 'much', 40, 40, 40],
  ])(
    '%s %s',
    async (sampler, argument, ofSampled, ofOthers, ofNone) => {
      using collector = startCollector();
      await using app = await startApp(collector, {
        OTEL_TRACES_SAMPLER: sampler,
        OTEL_TRACES_SAMPLER_ARG: argument,
      });
      const { key } = await app.createKey('alice');
      await sent(app, collector, Math.min(ofNone, 1));
      const expected = [ofSampled, ofOthers, ofNone];
      for (const [at, traceparent] of [SAMPLED, NOT_SAMPLED, ''].entries()) {
        for (let calls = 0; calls < 40; calls += 1) await app.call('get_data', {}, { 'x-api-key': key, traceparent });
        expect(await sent(app, collector, expected[at])).toHaveLength(expected[at] ?? 0);
      }
    },
    180_000,
  );

  test('a ratio decides by the trace id: equal ids, equal decisions', async () => {
    using collector = startCollector();
    await using app = await startApp(collector, { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '.5' });
    const { key } = await app.createKey('alice');
    const last = '1'.repeat(16) + '0'.repeat(16); // in the part of every ratio
    const ids = Array.from({ length: 100 }, () => crypto.getRandomValues(new Uint8Array(16)).toHex());
    const sampledOf = async () => {
      for (const id of [...ids, last])
        await app.call('get_data', {}, { 'x-api-key': key, traceparent: `00-${id}-${PARENT_ID}-00` });
      const spans = await sent(app, collector, 1); // all, as one batch
      return spans.flatMap(({ traceId }) => (ids.includes(traceId) ? traceId : [])).sort();
    };
    const first = await sampledOf();
    expect(first.length).toBeGreaterThan(25);
    expect(first.length).toBeLessThan(75);
    expect(await sampledOf()).toEqual(first);
  }, 180_000);
});
