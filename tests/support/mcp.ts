// MCP as bytes: messages of both eras, and an SSE stream read event by event.

import { postJsonText } from './client.ts';
import { type Json, readResponse, type TestApp, type TestResponse } from './test-app.ts';

export type HeaderMap = Record<string, string>;
export const ACCEPT = 'application/json, text/event-stream';
export const MODERN = '2026-07-28';

/** POST /mcp with a body: text as it is, anything else as JSON. */
export async function post(app: Pick<TestApp, 'url'>, body: unknown, headers: HeaderMap = {}): Promise<TestResponse> {
  return readResponse(await fetchMcp(app, body, headers));
}

export const fetchMcp = (app: Pick<TestApp, 'url'>, body: unknown, headers: HeaderMap = {}, signal?: AbortSignal) =>
  postJsonText(`${app.url}/mcp`, textOf(body), { accept: ACCEPT, ...headers }, signal);

const textOf = (message: unknown) => (typeof message === 'string' ? message : JSON.stringify(message));

export const request = (method: string, params?: unknown, id: unknown = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  ...(params !== undefined && { params }),
});

export const call = (name: string, args: unknown = {}, more: object = {}) =>
  request('tools/call', { name, arguments: args, ...more });

/** Requests that one batch may have. */
const BATCH_MAX = 100;

/** Calls a tool with each input, in batches: many calls with few requests. Returns the results, in order. */
export async function callAll(
  app: Pick<TestApp, 'url'>,
  tool: string,
  inputs: readonly object[],
  headers: HeaderMap,
  // biome-ignore lint/suspicious/noExplicitAny: tests read results of any shape
): Promise<any[]> {
  const results = [];
  for (let from = 0; from < inputs.length; from += BATCH_MAX) {
    const batch = inputs.slice(from, from + BATCH_MAX).map((input, at) => ({ ...call(tool, input), id: at }));
    const { body } = await post(app, batch, headers);
    results.push(...body.map(({ result }: { result: unknown }) => result));
  }
  return results;
}

export const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** The `_meta` of a client of 2026-07-28 that shows widgets. */
export const WITH_WIDGETS = {
  'io.modelcontextprotocol/clientCapabilities': {
    extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } },
  },
};

/** A request of 2026-07-28 with the headers that belong to it. */
export function modern(method: string, params: Record<string, unknown> = {}, meta: object = {}) {
  const name = params.name ?? params.uri;
  return {
    body: request(method, { ...params, _meta: { ...META, ...meta } }),
    headers: {
      'mcp-protocol-version': MODERN,
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
    } as HeaderMap,
  };
}

/** Sends a modern request; `change` alters it first. */
export function postModern(
  app: Pick<TestApp, 'url'>,
  method: string,
  params: Record<string, unknown> = {},
  { meta, headers }: { meta?: object; headers?: HeaderMap } = {},
): Promise<TestResponse> {
  const made = modern(method, params, meta);
  return post(app, made.body, { ...made.headers, ...headers });
}

export interface SseEvent {
  readonly event: string;
  readonly data: string;
}

/** Reads the events of a body, and counts its comments. */
export function eventReader(body: ReadableStream<Uint8Array>) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const events: SseEvent[] = [];
  let text = '';
  let comments = 0;

  async function pull(): Promise<boolean> {
    const { done, value } = await reader.read();
    if (done) return false;
    text += decoder.decode(value, { stream: true });
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const block = text.slice(0, end);
      text = text.slice(end + 2);
      if (block.startsWith(':')) {
        comments += 1;
        continue;
      }
      const field = (name: string) => new RegExp(`(?:^|\\n)${name}: ([^\\n]*)`).exec(block)?.[1];
      events.push({ event: field('event') ?? 'message', data: field('data') ?? '' });
    }
    return true;
  }

  return {
    /** The next event; undefined when the stream ended before one. */
    async next(): Promise<SseEvent | undefined> {
      while (events.length === 0) if (!(await pull())) return undefined;
      return events.shift();
    },
    /** Reads until a comment comes. */
    async comment(): Promise<void> {
      const seen = comments;
      while (comments === seen) if (!(await pull())) throw new Error('the stream ended');
    },
    /** Comments read so far. */
    comments: () => comments,
    async rest(): Promise<SseEvent[]> {
      while (await pull());
      return events.splice(0);
    },
    /** Goes away without a word. */
    cancel: () => reader.cancel(),
  };
}

/** Opens GET /sse and reads the endpoint event. */
export async function openSse(app: Pick<TestApp, 'url'>, headers: HeaderMap = {}) {
  const response = await fetch(`${app.url}/sse`, { headers: { accept: 'text/event-stream', ...headers } });
  if (response.status !== 200 || response.body === null) throw new Error(`GET /sse responded ${response.status}`);
  const events = eventReader(response.body);
  const first = await events.next();
  if (first?.event !== 'endpoint') throw new Error(`the first event was ${first?.event}`);
  const postUrl = new URL(first.data, app.url).href;
  return {
    /** Where to post, as the stream said it. */
    endpoint: first.data,
    events,
    async post(message: unknown, more: HeaderMap = {}): Promise<TestResponse> {
      return readResponse(await postJsonText(postUrl, textOf(message), { ...headers, ...more }));
    },
    async nextMessage(): Promise<Json> {
      const event = await events.next();
      return event === undefined ? undefined : JSON.parse(event.data);
    },
    drop: () => events.cancel(),
  };
}

/** Sends a request, and returns the message that responds to it. */
export type Ask = (
  app: Pick<TestApp, 'url'>,
  method: string,
  params?: Record<string, unknown>,
  headers?: HeaderMap,
) => Promise<Json>;

/** Every way to speak MCP to a server. */
export const WAYS: Readonly<Record<'legacy' | 'modern' | 'batch' | 'sse', Ask>> = {
  legacy: async (app, method, params, headers) => (await post(app, request(method, params), headers)).body,
  async modern(app, method, { _meta: meta = {}, ...params } = {}, headers = {}) {
    return (await postModern(app, method, params, { headers, meta: meta as object })).body;
  },
  batch: async (app, method, params, headers) =>
    (await post(app, [request('ping', undefined, 0), request(method, params)], headers)).body[1],
  async sse(app, method, params, headers) {
    const session = await openSse(app, headers);
    await session.post(request(method, params));
    const message = await session.nextMessage();
    await session.drop();
    return message;
  },
};

/** Calls a tool over each of these ways, one after the other; returns the messages that respond. */
export async function callOverWays(
  app: Pick<TestApp, 'url'>,
  tool: string,
  { args = {}, headers = {}, ...more }: { args?: object; headers?: HeaderMap; _meta?: object } = {},
): Promise<Json[]> {
  const messages = [];
  for (const ask of Object.values(WAYS)) {
    messages.push(await ask(app, 'tools/call', { name: tool, arguments: args, ...more }, headers));
  }
  return messages;
}
