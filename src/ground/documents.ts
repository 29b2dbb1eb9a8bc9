// Fetches another server's document: bounded in time and size, without credentials, and without following redirects,
// which could lead into this machine's network. The caller validates the document.

import type { Clock } from './runtime.ts';

export interface FetchedDocument {
  readonly status: number;
  readonly headers: Headers;
  /** Empty unless the status is 200; null: too large after decoding. */
  readonly body: Uint8Array<ArrayBuffer> | null;
}

/** Throws what `fetch` throws, or when the signal is aborted. */
export async function fetchDocument(url: string, bytesMax: number, signal: AbortSignal): Promise<FetchedDocument> {
  const headers = { accept: 'application/json', 'accept-encoding': 'identity' };
  const response = await fetch(url, { redirect: 'manual', credentials: 'omit', headers, signal });
  const { status } = response;
  if (status !== 200) {
    await response.body?.cancel();
    return { status, headers: response.headers, body: new Uint8Array() };
  }
  return { status, headers: response.headers, body: await bytesOf(response, bytesMax) };
}

async function bytesOf({ body }: Response, bytesMax: number): Promise<Uint8Array<ArrayBuffer> | null> {
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
  return `could not be fetched: ${typeof code === 'string' ? code : String(name)}`;
}

/** Runs with a signal that aborts after `ms`. */
export async function inTime<T>(clock: Pick<Clock, 'after'>, ms: number, run: (signal: AbortSignal) => Promise<T>) {
  const controller = new AbortController();
  const late = new DOMException('It took too long', 'TimeoutError');
  const cancel = clock.after(ms, () => controller.abort(late));
  try {
    return await run(controller.signal);
  } finally {
    cancel();
  }
}
