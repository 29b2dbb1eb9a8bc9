// Fetches another server's document: bounded in time and size, without credentials, and without following redirects,
// which could lead into this machine's network. The caller validates the document.

import { once } from './cache.ts';
import { type Awaitable, err, ok, type Result } from './result.ts';
import type { Clock } from './runtime.ts';
import { fetchCauseOf } from './text.ts';

interface FetchedDocument {
  readonly status: number;
  readonly headers: Headers;
  /** Empty unless the status is 200. An error says why it can't be read, in words fit for a log. */
  readonly body: Result<Uint8Array<ArrayBuffer>, string>;
}

/** Throws what `fetch` throws, or when the signal is aborted. */
export async function fetchDocument(url: string, bytesMax: number, signal: AbortSignal): Promise<FetchedDocument> {
  const init = { redirect: 'manual', credentials: 'omit', headers: { accept: 'application/json' }, signal } as const;
  const response = await fetchEncoded(url, init);
  const { status, headers } = response;
  if (status === 200) return { status, headers, body: await bodyOf(response, bytesMax) };
  await response.body?.cancel();
  return { status, headers, body: ok(new Uint8Array()) };
}

/**
 * Fetches without decoding the body, which `bodyOf` does: a runtime may decode all of it before the first byte can be
 * counted, and a few KB become as many GB. Throws what `fetch` throws.
 */
export function fetchEncoded<Init extends RequestInit>(url: string, init: Init): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set('accept-encoding', 'identity'); // given, it also keeps Deno from decoding
  return fetch(url, { ...init, headers, decompress: false });
}

/** Returns the body of a response to `fetchEncoded`, of at most `bytesMax` bytes before and after decoding. */
export async function bodyOf(response: Response, bytesMax: number): Promise<Result<Uint8Array<ArrayBuffer>, string>> {
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() || 'identity';
  const decode = DECODERS.get(encoding);
  if (decode === undefined) {
    await response.body?.cancel();
    return err('has an encoding that was not asked for');
  }
  const encoded = await readBody(response, bytesMax);
  if (encoded === null) return err(TOO_LARGE);
  try {
    return ok(await decode(encoded, { maxOutputLength: bytesMax }));
  } catch (error) {
    return err((error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE' ? TOO_LARGE : 'can’t be decoded');
  }
}

const TOO_LARGE = 'is too large';

type Decode = (
  encoded: Uint8Array<ArrayBuffer>,
  options: { readonly maxOutputLength: number },
) => Awaitable<Uint8Array<ArrayBuffer>>;

const zlib = once(() => import('node:zlib')); // loaded on first use: hardly any server encodes what it shouldn't

/** The encodings (RFC 9110 §8.4.1) of servers that ignore Accept-Encoding. Each stops at `maxOutputLength`. */
const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['identity', (body) => body],
  ['gzip', async (body, options) => (await zlib()).gunzipSync(body, options)],
  ['x-gzip', async (body, options) => (await zlib()).gunzipSync(body, options)],
  ['deflate', async (body, options) => (await zlib()).inflateSync(body, options)],
  ['br', async (body, options) => (await zlib()).brotliDecompressSync(body, options)],
]);

async function readBody({ body }: Response, bytesMax: number): Promise<Uint8Array<ArrayBuffer> | null> {
  const read = new Uint8Array(bytesMax);
  let bytes = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    if (bytes + chunk.byteLength > bytesMax) return null;
    read.set(chunk, bytes);
    bytes += chunk.byteLength;
  }
  return read.subarray(0, bytes);
}

/** Returns why a fetch failed, in words fit for a log. */
export function fetchFault(error: unknown): string {
  const { name, code } = error as { name?: unknown; code?: unknown };
  return `could not be fetched: ${typeof code === 'string' ? code : (fetchCauseOf(error) ?? String(name))}`;
}

/** Runs with a signal that aborts after `ms`. */
export async function inTime<T>(clock: Clock, ms: number, run: (signal: AbortSignal) => Promise<T>) {
  const controller = new AbortController();
  const late = new DOMException('It took too long', 'TimeoutError');
  const cancel = clock.after(ms, () => controller.abort(late));
  try {
    return await run(controller.signal);
  } finally {
    cancel();
  }
}
