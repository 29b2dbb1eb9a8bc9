// Reads a body, JSON or a form, within bounds, and checks its media type, size and syntax, in this order.

import { type Awaitable, chain, err, ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';

export const BODY_BYTES_MAX = 1024 * 1024; // far above any sensible tool input, far below what hurts

/** A kind of body that a route takes. */
interface BodyFormat {
  readonly type: string;
  readonly otherSpellings: RegExp;
  readonly parse: (text: string) => unknown;
  /** Reads and parses a whole body. */
  readonly read: (request: Request) => Promise<unknown>;
}

// Any parameter may follow, except another charset: unknown ones are to be ignored (RFC 2045 §5).
const spellingsOf = (type: string) =>
  new RegExp(String.raw`^${type}\s*(;(?!.*charset\s*=(?!\s*"?utf-?8\b))[^,]*)?$`, 'i');

const formatOf = (type: string, how: Pick<BodyFormat, 'parse' | 'read'>): BodyFormat => ({
  type,
  otherSpellings: spellingsOf(type),
  ...how,
});

const JSON_BODY = formatOf('application/json', { parse: JSON.parse, read: (request) => request.json() });

const parseForm = (text: string) => new URLSearchParams(text);
const FORM_BODY = formatOf('application/x-www-form-urlencoded', {
  parse: parseForm,
  read: async (request) => parseForm(await request.text()),
});

type Body = Result<unknown, Problem>;

/**
 * Hands the parsed body, or undefined when there is none, to `next`, with `context`. It takes a callback because
 * returning the body would cost every request one more promise, which is as much as reading its headers.
 */
export const withJson = <T, C>(request: Request, next: Next<unknown, T, C>, context: C): Awaitable<T> =>
  withBody(JSON_BODY, request, next, context);

/** The same for a form; each field is whatever was sent, as often as it was sent. */
export const withForm = <T, C>(
  request: Request,
  next: Next<URLSearchParams | undefined, T, C>,
  context: C,
): Awaitable<T> => withBody(FORM_BODY, request, next as Next<unknown, T, C>, context); // what its parser returns

/** Either of them, by its media type. */
export const withJsonOrForm = <T, C>(request: Request, next: Next<unknown, T, C>, context: C): Awaitable<T> =>
  withBody(isOf(FORM_BODY, request.headers.get('content-type')) ? FORM_BODY : JSON_BODY, request, next, context);

type Next<Parsed, T, C> = (body: Result<Parsed, Problem>, context: C) => Awaitable<T>;

function withBody<T, C>(format: BodyFormat, request: Request, next: Next<unknown, T, C>, context: C): Awaitable<T> {
  const { headers } = request;
  const length = headers.get('content-length');
  // Without a length or chunks there is no body (RFC 9112 §6.3). `request.body` is checked last, because touching it is
  // slow.
  if (length === '0' || (length === null && request.body === null)) return next(ok(undefined), context);
  const type = headers.get('content-type');
  const isTaken = isOf(format, type);
  if (length === null) return chain(readUnmeasured(format, request, isTaken), next, context);
  if (!isTaken) return next(err({ code: 'unsupported_media_type' }), context);
  if (Number(length) > BODY_BYTES_MAX) return next(err({ code: 'payload_too_large' }), context);
  return readMeasured(format, request, next, context);
}

const isOf = ({ type, otherSpellings }: BodyFormat, sent: string | null): boolean =>
  sent === type || (sent !== null && otherSpellings.test(sent));

async function readMeasured<T, C>(format: BodyFormat, request: Request, next: Next<unknown, T, C>, context: C) {
  let body: Body;
  try {
    body = ok(await format.read(request));
  } catch {
    body = INVALID;
  }
  return next(body, context);
}

/** Not what its type says, or cut off by the client. */
const INVALID: Body = err({ code: 'invalid_json' });

// No length announced: count while reading, and stop at the limit. Only the first byte shows that there is a body.
async function readUnmeasured(format: BodyFormat, request: Request, isTaken: boolean): Promise<Body> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = '';
  try {
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      if (!isTaken && chunk.byteLength > 0) return err({ code: 'unsupported_media_type' });
      bytes += chunk.byteLength;
      if (bytes > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });
      text += decoder.decode(chunk, { stream: true });
    }
    text += decoder.decode();
    return ok(text === '' ? undefined : format.parse(text));
  } catch {
    return INVALID;
  }
}
