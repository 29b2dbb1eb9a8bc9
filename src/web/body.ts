// Reads a JSON or form body, checking its media type, size and syntax, in this order. Long bodies of all clients share
// a bounded pool until their requests are over; if it is full, slow senders are cut off.

import { LIMITS } from '../ground/limits/index.ts';
import type { Pool } from '../ground/limits/pool.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import { type Awaitable, err, ok, type Result } from '../ground/result.ts';
import type { RequestContext } from './context.ts';

export const BODY_BYTES_MAX = LIMITS.body.each;

// Any parameters may follow, except another charset: unknown ones are ignored (RFC 2045 §5). A comma outside quotes
// would begin another type.
const OTHER_CHARSET = String.raw`(?:.*;)?\s*charset\s*=(?!\s*(?:"utf-?8"|utf-?8)\s*(?:;|$))`;
const PARAMETERS = '[^",]*(?:"[^"]*"[^",]*)*';

const strict = new TextDecoder('utf-8', { fatal: true });

type BodyFormat = ReturnType<typeof formatOf>;

const formatOf = (type: string, parse: (text: string) => unknown) => ({
  type,
  otherSpellings: new RegExp(`^${type}\\s*(?:;(?!${OTHER_CHARSET})${PARAMETERS})?$`, 'i'),
  read(bytes: Uint8Array): Body {
    try {
      return ok(parse(strict.decode(bytes))); // nothing is replaced (RFC 8259 §8.1)
    } catch (error) {
      return unreadable(error);
    }
  },
});

const JSON_FORMAT = formatOf('application/json', JSON.parse);

/** The most fields of a form, far more than a real one has. Parsing a body full of them would block for half a second. */
const FIELDS_MAX = 100;

/** A form with more fields counts as empty, so that the route reports which fields are missing. */
const FORM_FORMAT = formatOf('application/x-www-form-urlencoded', (text) => {
  if (text.split('&', FIELDS_MAX + 1).length > FIELDS_MAX) return new URLSearchParams();
  if (!isUtf8(text)) throw new URIError();
  return new URLSearchParams(text);
});

/**
 * Returns whether the `%XX` in a form or query are valid UTF-8. URLSearchParams would put U+FFFD for invalid bytes. A
 * `%` alone stands for itself.
 */
export function isUtf8(text: string): boolean {
  try {
    decodeURIComponent(text.replace(LONE_PERCENT, '%25'));
    return true;
  } catch {
    return false;
  }
}

const LONE_PERCENT = /%(?![0-9a-f]{2})/gi;

/** What a route accepts instead of JSON. A form is passed as URLSearchParams, which keep repeated fields. */
export type BodyKind = 'form' | 'json_or_form';

/** The parsed body; undefined if there is none. */
export type Body = Result<unknown, Problem>;

export const formIn = (value: unknown): URLSearchParams =>
  value instanceof URLSearchParams ? value : new URLSearchParams();

/** Bodies up to this length aren't counted: the head of a request may be as large. */
const BYTES_COUNTED = 16 * 1024;

/** Creates the function that reads a body, by default JSON. */
export function createReadBody(pool: Pool) {
  return (kind: BodyKind | undefined, context: RequestContext): Awaitable<Body> => {
    const { request, headers } = context;
    const length = Number(headers.get('content-length') ?? Number.NaN);
    // Without a length or chunks there is no body (RFC 9112 §6.3). `request.body` comes last: reading it is slow.
    if (length === 0 || (Number.isNaN(length) && request.body === null)) return NO_BODY;
    const type = headers.get('content-type');
    const format = formatFor(kind, type);
    const refusal = isOf(format, type) ? refusalOfEncoding(headers.get('content-encoding')) : wrongType(kind);
    if (Number.isNaN(length)) return readCounted(pool, format, context, 0, refusal);
    if (refusal !== undefined) return refusal;
    if (length > BODY_BYTES_MAX) return TOO_LARGE;
    context.bodyBytes = length;
    return length <= BYTES_COUNTED ? readWhole(format, request, length) : readCounted(pool, format, context, length);
  };
}

/**
 * Reads a short body. No async function, which would cost another promise: nearly every request comes here. What is shorter
 * than announced is not the body: its client took the request back over HTTP/2, which looks like the end on Deno.
 */
const readWhole = ({ read }: BodyFormat, request: Request, length: number): Promise<Body> =>
  request.bytes().then((bytes) => (bytes.byteLength < length ? INVALID_BODY : read(bytes)), unreadable);

/**
 * Reads a body and counts its bytes against the pool: an announced length before reading, anything more while reading.
 * The length may be missing (0), or announced twice, which Bun lets through. Without a length only the first byte shows
 * that there is a body, which may have to be refused.
 */
async function readCounted(
  pool: Pool,
  { read }: BodyFormat,
  context: RequestContext,
  length: number,
  refusal?: Body,
): Promise<Body> {
  const reader = (context.request.body as ReadableStream<Uint8Array>).getReader();
  let isCut = false; // for lack of room: what has arrived must not be parsed, as it may be JSON by itself
  const held = pool(() => {
    isCut = true;
    void reader.cancel().catch(() => {});
  });
  if (!held.hold(length)) return OVERLOADED_BODY;
  context.defer(() => void held.hold(0));
  let body = new Uint8Array(length);
  let bytes = 0;
  try {
    for (let { value: piece } = await reader.read(); piece !== undefined; { value: piece } = await reader.read()) {
      if (refusal !== undefined && piece.byteLength > 0) return refusal;
      const end = bytes + piece.byteLength;
      held.moved(piece.byteLength);
      if (end > BODY_BYTES_MAX) return TOO_LARGE;
      if (end > Math.max(length, BYTES_COUNTED) && !held.hold(end)) return OVERLOADED_BODY;
      if (end > body.length) body = new Uint8Array(body.buffer.transfer(Math.max(end, 2 * bytes)));
      body.set(piece, bytes);
      bytes = end;
    }
    if (isCut) return OVERLOADED_BODY;
    if (bytes < length) return INVALID_BODY; // as in readWhole
    held.keep();
    context.bodyBytes = bytes;
    return bytes === 0 ? NO_BODY : read(body.subarray(0, bytes));
  } catch (error) {
    return unreadable(error);
  }
}

/** Drops a body that the route doesn't read. The runtime would keep it, uncounted, until the response is there. */
export function dropBody({ request, headers, method }: RequestContext): Body {
  if (method === 'GET' || method === 'HEAD') return NO_BODY; // the runtime reads none of theirs
  const length = headers.get('content-length');
  const isLong = length === null ? headers.has('transfer-encoding') : Number(length) > BYTES_COUNTED;
  if (isLong) request.body?.cancel().catch(() => {});
  return NO_BODY;
}

function formatFor(kind: BodyKind | undefined, type: string | null): BodyFormat {
  if (kind === undefined) return JSON_FORMAT;
  return kind === 'form' || isOf(FORM_FORMAT, type) ? FORM_FORMAT : JSON_FORMAT;
}

const isOf = ({ type, otherSpellings }: BodyFormat, sent: string | null): boolean =>
  sent === type || (sent !== null && otherSpellings.test(sent));

/** Returns the refusal of a body with a content coding (such as gzip). An empty list of codings counts as none. */
function refusalOfEncoding(encodings: string | null): Body | undefined {
  if (encodings === null || ONLY_IDENTITY.test(encodings)) return undefined;
  return err({ code: 'unsupported_media_type', isEncoded: true });
}

const ONLY_IDENTITY = /^(?:[\s,]|identity(?=[\s,]|$))*$/i;

/** Returns the problem for an unreadable body. A decoder throws a TypeError, an invalid `%XX` a URIError. */
const unreadable = (error: unknown): Body =>
  error instanceof TypeError || error instanceof URIError ? NOT_UTF8 : INVALID_BODY;

const wrongType = (takes: BodyKind | undefined): Body =>
  err({ code: 'unsupported_media_type', ...(takes && { takes }) });

const NO_BODY: Body = ok(undefined);
const TOO_LARGE: Body = err({ code: 'payload_too_large' });
const INVALID_BODY: Body = err({ code: 'invalid_json' });
const NOT_UTF8: Body = err({ code: 'invalid_json', isNotUtf8: true });
const OVERLOADED_BODY: Body = err(OVERLOADED);
