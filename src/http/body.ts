// Reads a JSON body within bounds, and checks its media type, size and syntax, in this order.

import { type Awaitable, chain, err, ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';

export const BODY_BYTES_MAX = 1024 * 1024; // far above any sensible tool input, far below what hurts

// Any parameter may follow, except another charset: unknown ones are to be ignored (RFC 2045 §5).
const JSON_TYPE = /^application\/json\s*(;(?!.*charset\s*=(?!\s*"?utf-?8\b))[^,]*)?$/i;

type Body = Result<unknown, Problem>;

/**
 * Hands the parsed body, or undefined when there is none, to `next`, with `context`. It takes a callback because
 * returning the body would cost every request one more promise, which is as much as reading its headers.
 */
export function withJson<T, C>(
  request: Request,
  next: (body: Body, context: C) => Awaitable<T>,
  context: C,
): Awaitable<T> {
  const { headers } = request;
  const length = headers.get('content-length');
  // Without a length or chunks there is no body (RFC 9112 §6.3). `request.body` is checked last, because touching it is
  // slow.
  if (length === '0' || (length === null && request.body === null)) return next(ok(undefined), context);
  const type = headers.get('content-type');
  const isJson = type === 'application/json' || (type !== null && JSON_TYPE.test(type));
  if (length === null) return chain(readUnmeasured(request, isJson), next, context);
  if (!isJson) return next(err({ code: 'unsupported_media_type' }), context);
  if (Number(length) > BODY_BYTES_MAX) return next(err({ code: 'payload_too_large' }), context);
  return readMeasured(request, next, context);
}

async function readMeasured<T, C>(request: Request, next: (body: Body, context: C) => Awaitable<T>, context: C) {
  let body: Body;
  try {
    body = ok(await request.json());
  } catch {
    body = INVALID;
  }
  return next(body, context);
}

/** Not JSON, or cut off by the client. */
const INVALID: Body = err({ code: 'invalid_json' });

// No length announced: count while reading, and stop at the limit. Only the first byte shows that there is a body.
async function readUnmeasured(request: Request, isJson: boolean): Promise<Body> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = '';
  try {
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      if (!isJson && chunk.byteLength > 0) return err({ code: 'unsupported_media_type' });
      bytes += chunk.byteLength;
      if (bytes > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });
      text += decoder.decode(chunk, { stream: true });
    }
    text += decoder.decode();
    return ok(text === '' ? undefined : JSON.parse(text));
  } catch {
    return INVALID;
  }
}
