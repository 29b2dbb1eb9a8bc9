// A receiver of OTLP over HTTP. It decodes what it gets by OpenTelemetry's own generated classes, and takes nothing that they
// don't have.

import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { ExportTraceServiceRequest } = require('@opentelemetry/otlp-transformer/build/src/generated/root.js')
  .opentelemetry.proto.collector.trace.v1;

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly status: { readonly code?: number };
}

export interface Received {
  readonly headers: Headers;
  readonly path: string;
  readonly text: string;
  readonly resource: Readonly<Record<string, string>>;
  readonly spans: readonly ReceivedSpan[];
}

const BYTES = ['traceId', 'spanId', 'parentSpanId'];
const HEX = /^([0-9a-f]{16}|[0-9a-f]{32})$/;

/** As the JSON of protobuf has them, where ids are base64: in OTLP they are hex. */
const withBase64 = (_name: string, value: unknown): unknown =>
  value !== null && typeof value === 'object' && !Array.isArray(value)
    ? Object.fromEntries(
        Object.entries(value).map(([name, one]) => [name, BYTES.includes(name) ? base64Of(String(one)) : one]),
      )
    : value;

function base64Of(id: string): string {
  if (!HEX.test(id)) throw new Error(`no id in lower-case hex: ${id}`);
  return Buffer.from(id, 'hex').toString('base64');
}

const hexOf = (base64: string) => Buffer.from(base64, 'base64').toString('hex');

interface Pair {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: string };
}

const attributesOf = (pairs: readonly Pair[] = []) =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, value.stringValue ?? String(value.intValue)]));

/** Decodes a request. Throws an Error for whatever the classes don't have, or take as something else. */
export function decoded(text: string): Pick<Received, 'resource' | 'spans'> {
  const sent = JSON.parse(text, withBase64);
  const bytes = ExportTraceServiceRequest.encode(ExportTraceServiceRequest.fromObject(sent)).finish();
  const read = ExportTraceServiceRequest.toObject(ExportTraceServiceRequest.decode(bytes), {
    longs: String,
    bytes: String,
  });
  if (!Bun.deepEquals(read, sent)) throw new Error(`not what was sent: ${JSON.stringify(read)}`);
  const [{ resource, scopeSpans }] = read.resourceSpans;
  const spans = scopeSpans[0].spans.map((span: Record<string, string> & { attributes: readonly Pair[] }) => ({
    ...span,
    ...Object.fromEntries(BYTES.flatMap((name) => (span[name] ? [[name, hexOf(span[name])]] : []))),
    attributes: attributesOf(span.attributes),
  }));
  return { resource: attributesOf(resource.attributes), spans };
}

export type Collector = ReturnType<typeof startCollector>;

export function startCollector() {
  const requests: Received[] = [];
  let asked = 0;
  let respond: () => Response | Promise<Response> = () => Response.json({});
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0, // a test may hold a response up for as long as its machine takes
    async fetch(request) {
      asked += 1;
      const text = await request.text();
      const response = await respond();
      if (response.ok) {
        requests.push({ headers: request.headers, path: new URL(request.url).pathname, text, ...decoded(text) });
      }
      return response;
    },
  });
  return {
    url: server.url.origin,
    /** What it has got and could decode. */
    requests: requests as readonly Received[],
    /** How often it was asked. */
    asked: () => asked,
    spans: (): readonly ReceivedSpan[] => requests.flatMap(({ spans }) => spans),
    /** Has it respond like this from now on. */
    respond(as: typeof respond) {
      respond = as;
    },
    [Symbol.dispose]: () => void server.stop(true),
  };
}
