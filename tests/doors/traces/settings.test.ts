// OpenTelemetry's variables belong to the whole machine: none stops a start, and none is shown.

import { describe, expect, test } from 'bun:test';
import { type Collector, startCollector } from '../../support/collector.ts';
import { createTestApp, type Env, type LogLine, type TestApp } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const HUGE = 'x'.repeat(100_000);
const SECRET = 'hunter2';

const start = (collector: Pick<Collector, 'url'>, env: Env = {}) =>
  createTestApp({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...env } });

const warnings = async (app: TestApp): Promise<LogLine[]> =>
  (await app.log()).filter(({ event }) => event.startsWith('variable') || event.startsWith('traces'));

/** Makes one span, and has it sent. */
async function useOnce(app: TestApp): Promise<void> {
  await app.createKey('alice');
  app.clock.advance(5000);
}

type Name = `OTEL_${string}`;

test.each<[Name, string, string]>([
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'of another scheme', `ftp://${SECRET}`],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'that is huge', HUGE],
  ['OTEL_EXPORTER_OTLP_TRACES_HEADERS', 'without a value', SECRET],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'with a wrong escape', `${SECRET}=%ZZ`],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'with a space in a name', `a b=${SECRET}`],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'with a line break', `a=${SECRET}%0d%0ab`],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'without a name', `=${SECRET}`],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'that is huge', `a=${HUGE}`],
  ['OTEL_EXPORTER_OTLP_TIMEOUT', 'that is negative', '-1'],
  ['OTEL_EXPORTER_OTLP_TIMEOUT', 'of 0', '0'],
  ['OTEL_EXPORTER_OTLP_TIMEOUT', 'with a unit', '10s'],
  ['OTEL_EXPORTER_OTLP_TIMEOUT', 'beyond all numbers', '99999999999999999999'],
  ['OTEL_EXPORTER_OTLP_PROTOCOL', 'of an unknown name', 'carrier pigeon'],
  ['OTEL_SERVICE_NAME', 'that is huge', HUGE],
  ['OTEL_SERVICE_NAME', 'of two lines', 'a\nb'],
  ['OTEL_RESOURCE_ATTRIBUTES', 'without a value', 'a'],
  ['OTEL_RESOURCE_ATTRIBUTES', 'of 200 pairs', Array.from({ length: 200 }, (_, at) => `a${at}=b`).join(',')],
  ['OTEL_TRACES_SAMPLER', 'in capitals', 'ALWAYS_ON'],
  ['OTEL_TRACES_SAMPLER_ARG', 'that the sampler would not read', 'much'],
  ['OTEL_TRACES_EXPORTER', 'of another name', 'console'],
  ['OTEL_SDK_DISABLED', 'of 1', '1'],
])('%s %s is a warning with its name, and counts as unset', async (name, _, value) => {
  using collector = startCollector();
  await using app = await start(collector, { [name]: value });
  expect(await warnings(app)).toMatchObject([{ level: 'warn', variable: name, reason: expect.any(String) }]);
  expect(await app.logText()).not.toContain(SECRET);
  expect(await app.logText()).not.toContain('xxxxx');
  await useOnce(app);
  await waitFor(() => collector.spans().length === 1);
  expect(collector.requests[0]?.resource['service.name']).toBe('mcp-key-server');
});

test.each<[string, string]>([
  ['ENDPOINT', 'localhost'],
  ['HEADERS', SECRET],
  ['TIMEOUT', '10s'],
  ['PROTOCOL', 'pigeon'],
])('OTEL_EXPORTER_OTLP_%s is a warning beside a good one of traces', async (name, value) => {
  using collector = startCollector();
  const good = { ENDPOINT: collector.url, HEADERS: 'a=b', TIMEOUT: '1000', PROTOCOL: 'http/json' }[name];
  const variable = `OTEL_EXPORTER_OTLP_${name}`;
  await using app = await start(collector, { [variable]: value, [`OTEL_EXPORTER_OTLP_TRACES_${name}`]: good });
  expect(await warnings(app)).toMatchObject([{ level: 'warn', variable }]);
  await useOnce(app);
  await waitFor(() => collector.spans().length === 1);
});

test('a ratio that is none counts as 1', async () => {
  using collector = startCollector();
  for (const ratio of ['1.5', '-0.1', 'NaN', 'Infinity', '0x1', '1e9']) {
    const env = { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: ratio };
    await using app = await start(collector, env);
    expect(await warnings(app)).toMatchObject([{ variable: 'OTEL_TRACES_SAMPLER_ARG' }]);
  }
});

test.each<[string, Env]>([
  ['an endpoint that is none', { OTEL_EXPORTER_OTLP_ENDPOINT: 'localhost:4318' }],
  ['no endpoint', { OTEL_EXPORTER_OTLP_ENDPOINT: '', OTEL_SERVICE_NAME: HUGE }],
  ['OTEL_SDK_DISABLED', { OTEL_SDK_DISABLED: 'TRUE' }],
  ['OTEL_TRACES_EXPORTER=none', { OTEL_TRACES_EXPORTER: 'none' }],
  ['gRPC', { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }],
])('nothing is sent: %s', async (what, env) => {
  using collector = startCollector();
  await using app = await start(collector, env);
  await useOnce(app);
  await Bun.sleep(50);
  expect(collector.asked()).toBe(0);
  const isSaid = what === 'gRPC' || what.startsWith('an endpoint');
  expect(await warnings(app)).toHaveLength(isSaid ? 1 : 0);
  if (what === 'gRPC') expect((await warnings(app))[0]?.reason).toContain(`http/json to ${collector.url}`);
});

test('with gRPC’s port the warning names that of HTTP', async () => {
  await using app = await start(
    { url: `http://user:${SECRET}@127.0.0.1:4317/path?token=${SECRET}` },
    { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
  );
  expect((await warnings(app))[0]?.reason).toEndWith('http://127.0.0.1:4318');
  expect(await app.logText()).not.toContain(SECRET);
});

test('with http/protobuf spans are sent as JSON, and a line says so', async () => {
  using collector = startCollector();
  await using app = await start(collector, { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf' });
  expect(await warnings(app)).toMatchObject([{ variable: 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL' }]);
  await useOnce(app);
  await waitFor(() => collector.spans().length === 1);
});

describe('the address', () => {
  test.each<[string, (url: string) => Env, string]>([
    ['gets /v1/traces', (url) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/base/` }), '/base/v1/traces'],
    ['of traces is taken as it is', (url) => ({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/own` }), '/own'],
  ])('%s', async (_what, env, path) => {
    using collector = startCollector();
    await using app = await start(collector, env(collector.url));
    await useOnce(app);
    await waitFor(() => collector.requests.length === 1);
    expect(collector.requests[0]?.path).toBe(path);
  });

  test('with a user, a query and a token in its path: they are sent, and no part of them is in a line', async () => {
    using collector = startCollector();
    const url = `${collector.url.replace('//', `//user:${SECRET}@`)}/${SECRET}?token=${SECRET}`;
    await using app = await start({ url }, { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: url });
    collector.respond(() => new Response('', { status: 400 }));
    await useOnce(app);
    await waitFor(async () => (await app.log()).some(({ event }) => event === 'spans dropped'));
    expect(await app.logText()).not.toContain(SECRET);
    collector.respond(() => Response.json({}));
    await useOnce(app);
    await waitFor(() => collector.requests.length === 1);
    expect(collector.requests[0]?.headers.get('authorization')).toBe(`Basic ${btoa(`user:${SECRET}`)}`);
    expect(collector.requests[0]?.path).toBe(`/${SECRET}`);
  });

  test('of plain HTTP that is not on this machine is a warning in production', async () => {
    const url = `http://collector.example:4318/${SECRET}`;
    const env = { NODE_ENV: 'production', OTEL_SDK_DISABLED: 'false' };
    for (const variable of ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']) {
      await using app = await createTestApp({ env: { ...env, [variable]: url } });
      expect(await warnings(app)).toMatchObject([
        { event: 'traces in clear text', variable, reason: 'http://collector.example:4318' },
      ]);
    }
  });
});

test('headers and the resource are as the variables say', async () => {
  using collector = startCollector();
  await using app = await start(collector, {
    OTEL_EXPORTER_OTLP_HEADERS: 'x-own=general',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: ' api-key = a%20b , x-own=traces,',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment=a%2Cb',
    OTEL_SERVICE_NAME: 'keys',
  });
  await useOnce(app);
  await waitFor(() => collector.requests.length === 1);
  const [{ headers, resource } = { headers: new Headers(), resource: {} }] = collector.requests;
  expect([headers.get('api-key'), headers.get('x-own')]).toEqual(['a b', 'traces']);
  expect(resource).toMatchObject({ 'service.name': 'keys', 'deployment.environment': 'a,b' });
});
