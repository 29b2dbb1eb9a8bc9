// GET /metrics: who may read it, and that it counts what was asked, no more and no less.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { definePrompt, defineTool, ok, type ToolDeps } from '../../../src/start/package/index.ts';
import { databaseOf, openDatabase } from '../../support/database-client.ts';
import { call, openSse, post, postModern, request } from '../../support/mcp.ts';
import { bearer, createTestApp, sharedApp, type TestApp } from '../../support/test-app.ts';
import { anyone, noInput, promptFacts } from '../../support/tools.ts';

const TOKEN = 'a-token-for-scrapers';
const METRICS = { METRICS_TOKEN: TOKEN };

async function scrape(app: TestApp): Promise<Map<string, number>> {
  const response = await fetch(`${app.url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(' ');
      return [line.slice(0, space), Number(line.slice(space + 1).replace('+Inf', 'Infinity'))];
    }),
  );
}

const OPERATION = /^mcp_server_operation_duration_seconds_count\{(.*)\}$/;
/** How often each operation ended in each way, by its labels. */
const operationsIn = (metrics: Map<string, number>): Record<string, number> =>
  Object.fromEntries(
    [...metrics].flatMap(([name, count]) => {
      const labels = OPERATION.exec(name)?.[1];
      return labels === undefined ? [] : [[labels, count]];
    }),
  );

const app = await sharedApp({ env: METRICS });

describe('who may read it', () => {
  test('without METRICS_TOKEN /metrics is not found', async () => {
    await using other = await createTestApp();
    const { status } = await fetch(`${other.url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
    expect(status).toBe(404);
  });

  test.each([
    ['nothing', {}, 'missing_token'],
    ['another token', { authorization: `Bearer ${TOKEN}.` }, 'invalid_token'],
    ['an API key header', { 'x-api-key': TOKEN }, 'missing_token'],
  ])('%s is 401 with a challenge, which says what is expected', async (_, headers, code) => {
    const response = await fetch(`${app.url}/metrics`, { headers: headers as Record<string, string> });
    expect(response.status).toBe(401);
    const challenge = response.headers.get('www-authenticate');
    expect(challenge).toStartWith('Bearer ');
    expect(challenge).not.toContain('user token');
    expect(await response.json()).toMatchObject({ code, detail: expect.stringContaining('METRICS_TOKEN') });
  });

  test('in production /metrics is read over plain HTTP too, where an API key is still refused', async () => {
    await using production = await createTestApp({ env: { ...METRICS, NODE_ENV: 'production' } });
    expect((await scrape(production)).size).toBeGreaterThan(10);
    expect((await production.useKey('sk_live_x')).body).toMatchObject({ code: 'https_required' });
  });
});

test('what was asked over each transport is counted, by how it ended', async () => {
  await using counted = await createTestApp({ env: { ...METRICS, RATE_LIMIT_REQUESTS: '7' } });
  const { key } = await counted.createKey('alice');
  const headers = { 'x-api-key': key };
  for (let use = 0; use < 3; use += 1) await counted.useKey(key);
  await counted.useKey('no key');
  for (let use = 0; use < 2; use += 1) await post(counted, call('get_data'), headers);
  await postModern(counted, 'tools/call', { name: 'get_data', arguments: {} }, { headers });
  await post(counted, request('tools/list'));
  await post(counted, [call('get_data'), request('ping', {}, 2)], headers);
  const session = await openSse(counted, headers);
  await session.post(call('get_data'));
  await session.nextMessage();
  await session.drop();

  const metrics = await scrape(counted);
  const ofTool = (tool: string, more: string) => `mcp_method_name="tools/call",gen_ai_tool_name="${tool}",${more}`;
  expect(operationsIn(metrics)).toEqual({
    [ofTool('create_api_key', 'transport="rest"')]: 1,
    [ofTool('get_data', 'transport="rest"')]: 3,
    [ofTool('get_data', 'error_type="invalid_api_key",transport="rest"')]: 1,
    [ofTool('get_data', 'transport="http"')]: 4,
    'mcp_method_name="tools/list",transport="http"': 1,
    'mcp_method_name="ping",transport="http"': 1,
    [ofTool('get_data', 'error_type="rate_limited",transport="sse"')]: 1,
  });
  expect(metrics.get('mcp_keys_refused_total{code="invalid_api_key"}')).toBe(1);
  expect(metrics.get('mcp_keys_refused_total{code="rate_limited"}')).toBe(1);
  expect(metrics.get('mcp_keys_verifications_total{result="store"}')).toBe(1);
  expect(metrics.get('mcp_keys_verifications_total{result="memory"}')).toBe(7);
  expect(metrics.get('mcp_keys_verifications_total{result="refused"}')).toBe(1);
  expect(metrics.get('mcp_keys_verifications_total{result="unavailable"}')).toBe(0);
  expect(metrics.get('mcp_keys_store_duration_seconds_count{operation="insert"}')).toBe(1);
  expect(metrics.get('mcp_keys_store_duration_seconds_count{operation="find_by_hashes"}')).toBe(1);
});

test('the buckets are cumulative, and the last one has every observation', async () => {
  await app.useKey('no key');
  const metrics = await scrape(app);
  const buckets = [...metrics].filter(([name]) =>
    name.startsWith(
      'mcp_server_operation_duration_seconds_bucket{mcp_method_name="tools/call",gen_ai_tool_name="get_data",error_type="invalid_api_key"',
    ),
  );
  const values = buckets.map(([, value]) => value);
  expect(values).toEqual(values.toSorted((a, b) => a - b));
  expect(buckets.at(-1)?.[0]).toContain('le="+Inf"');
  expect(values.at(-1)).toBe(
    metrics.get(
      'mcp_server_operation_duration_seconds_count{mcp_method_name="tools/call",gen_ai_tool_name="get_data",error_type="invalid_api_key",transport="rest"}',
    ) as number,
  );
});

test('a call that its client cancelled is counted apart from one that is out of time', async () => {
  const running = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let calls = 0;
  const tool = defineTool(anyone, {
    ...noInput('stops'),
    timeoutMs: 1000,
    run: (_input, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        running[calls]?.resolve();
        calls += 1;
      }),
  });
  await using counted = await createTestApp({ env: METRICS, tools: () => [tool] });
  const session = await openSse(counted);
  await session.post({ ...call('stops'), id: 7 });
  await running[0]?.promise;
  await session.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } });
  await session.drop();
  const late = post(counted, call('stops'));
  await running[1]?.promise;
  counted.clock.advance(1000);
  expect((await late).body.result.isError).toBe(true);
  const of = (ended: string, transport: string) =>
    `mcp_method_name="tools/call",gen_ai_tool_name="stops",error_type="${ended}",transport="${transport}"`;
  expect(operationsIn(await scrape(counted))).toEqual({
    [of('cancelled', 'sse')]: 1,
    [of('tool_timeout', 'http')]: 1,
  });
});

test('prompts are counted by their methods, without a name', async () => {
  const prompt = ({ guards }: ToolDeps) =>
    definePrompt(guards.apiKey, {
      ...promptFacts('greet'),
      arguments: v.strictObject({ name: v.string() }),
      run: ({ name }) => ok({ messages: [{ role: 'user', content: { type: 'text', text: name } }] }),
      complete: { name: () => ok([]) },
    });
  await using counted = await createTestApp({ env: METRICS, prompts: (deps) => [prompt(deps)] });
  const { key } = await counted.createKey('alice');
  const get = request('prompts/get', { name: 'greet', arguments: { name: 'Bob' } });
  const complete = { ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'name', value: 'B' } };
  await post(counted, get, { 'x-api-key': key });
  await post(counted, get);
  await post(counted, request('completion/complete', complete), { 'x-api-key': key });
  await post(counted, request('prompts/get', { name: 'nope' }));
  expect(operationsIn(await scrape(counted))).toMatchObject({
    'mcp_method_name="prompts/get",transport="http"': 1,
    'mcp_method_name="prompts/get",error_type="missing_api_key",transport="http"': 1,
    'mcp_method_name="prompts/get",error_type="-32602",transport="http"': 1,
    'mcp_method_name="completion/complete",transport="http"': 1,
  });
});

test('invented tools and methods make one label each; a tool that is there keeps its name, though not called', async () => {
  for (let name = 0; name < 50; name += 1) {
    await post(app, call(`tool_${name}`));
    await post(app, request(`method/${name}`));
  }
  await post(app, call('get_data', []));
  await post(app, call('get_data'), { 'mcp-protocol-version': '2027-01-01' });
  await post(app, request('method/made-up'), { 'mcp-protocol-version': '2027-01-01' });
  const counts = Object.entries(operationsIn(await scrape(app)));
  expect(Object.fromEntries(counts.filter(([labels]) => labels.includes('transport="http"')))).toEqual({
    'mcp_method_name="tools/call",gen_ai_tool_name="get_data",error_type="-32602",transport="http"': 1,
    'mcp_method_name="tools/call",gen_ai_tool_name="get_data",error_type="-32022",transport="http"': 1,
    'mcp_method_name="tools/call",gen_ai_tool_name="other",error_type="-32602",transport="http"': 50,
    'mcp_method_name="other",error_type="-32022",transport="http"': 1,
    'mcp_method_name="other",error_type="-32601",transport="http"': 50,
  });
});

test('the lag beside its bound: 0 while nobody verifies, then the age of the last poll', async () => {
  await using lagging = await createTestApp({ env: METRICS });
  const lagOf = async () => (await scrape(lagging)).get('mcp_keys_feed_lag_seconds');
  expect(await lagOf()).toBe(0);
  await lagging.useKey((await lagging.createKey('alice')).key);
  lagging.clock.advance(200);
  expect(await lagOf()).toBe(0.2);
  expect((await scrape(lagging)).get('mcp_keys_feed_lag_limit_seconds')).toBe(1);
  lagging.clock.advance(61_000);
  expect(await lagOf()).toBe(0);
});

test('keys that expire soon are counted, once a minute', async () => {
  await using expiring = await createTestApp({ env: METRICS });
  const counts = async () => {
    const metrics = await scrape(expiring);
    return ['1d', '7d', '30d'].map((within) => metrics.get(`mcp_keys_expiring{within="${within}"}`));
  };
  for (const expiresInDays of [0.5, 6.9, 7.1, 29, 31, undefined]) await expiring.createKey('alice', { expiresInDays });
  const { id } = await expiring.createKey('alice', { expiresInDays: 1 });
  await expiring.call('revoke_api_key', { keyId: id }, await bearer(expiring, 'alice'));
  expect(await counts()).toEqual([1, 2, 4]);
  await expiring.createKey('alice', { expiresInDays: 0.5 });
  expect(await counts()).toEqual([1, 2, 4]);
  expiring.clock.advance(60_000);
  expect(await counts()).toEqual([2, 3, 5]);
  expiring.clock.advance(86_400_000);
  expect(await counts()).toEqual([0, 2, 4]);
});

test('however many expire, a scrape reads a thousand of them, the soonest', async () => {
  await using crowded = await createTestApp({ env: METRICS, store: 'embedded' });
  const database = openDatabase(databaseOf(crowded));
  const insert = (count: number, days: number) =>
    database.execute(`INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms, expires_at_ms)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
SELECT lower(hex(randomblob(16))), 'bob', 'k', lower(hex(randomblob(32))), '[]', 1, 1, ${crowded.clock.nowMs() + days * 86_400_000} FROM n`);
  await insert(600, 20);
  await insert(999, 0.5);
  database.close();
  const metrics = await scrape(crowded);
  const counts = ['1d', '7d', '30d'].map((within) => metrics.get(`mcp_keys_expiring{within="${within}"}`));
  expect(counts).toEqual([999, 999, 1000]);
});

test('sessions, process and build', async () => {
  const before = (await scrape(app)).get('mcp_server_sessions') ?? 0;
  const session = await openSse(app);
  const metrics = await scrape(app);
  expect(metrics.get('mcp_server_sessions')).toBe(before + 1);
  expect(metrics.get('mcp_server_build_info{version="1.0.0"}')).toBe(1);
  expect(metrics.get('process_start_time_seconds')).toBe(app.clock.nowMs() / 1000);
  await session.drop();
});

test('nothing in it is a key, a hash, an owner or an address', async () => {
  const { key, id } = await app.createKey('carol');
  await app.useKey(key);
  await app.call('list_api_keys', {}, await bearer(app, 'carol'));
  const text = [...(await scrape(app)).keys()].join('\n');
  for (const secret of [key, id, 'carol', '127.0.0.1', TOKEN]) expect(text).not.toContain(secret);
});
