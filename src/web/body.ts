// Reads a JSON or form body, checking its media type, size and syntax, in this order. The bytes of long bodies are
// bounded for all clients together until their requests are over; who sends slowly makes room for others.

import { LIMITS } from '../ground/limits/index.ts';
import type { Pool } from '../ground/limits/pool.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import { type Awaitable, err, ok, type Result } from '../ground/result.ts';
import type { RequestContext } from './context.ts';

export const BODY_BYTES_MAX = LIMITS.body.each;

interface BodyFormat {
  readonly type: string;
  readonly otherSpellings: RegExp;
  readonly parse: (text: string) => unknown;
}

// Any parameter but another charset may follow: unknown ones are ignored (RFC 2045 §5). A comma outside quotes would
// begin another type.
const OTHER_CHARSET = String.raw`(?:.*;)?\s*charset\s*=(?!\s*(?:"utf-?8"|utf-?8)\s*(?:;|$))`;
const PARAMETERS = '[^",]*(?:"[^"]*"[^",]*)*';

const formatOf = (type: string, parse: BodyFormat['parse']): BodyFormat => ({
  type,
  otherSpellings: new RegExp(`^${type}\\s*(?:;(?!${OTHER_CHARSET})${PARAMETERS})?$`, 'i'),
  parse,
});

const JSON_FORMAT = formatOf('application/json', JSON.parse);

/** Far more than any form has. Parsing a body full of fields would block the process for half a second. */
const FIELDS_MAX = 100;

/** A form with more fields counts as empty: routes say what is missing. */
const FORM_FORMAT = formatOf(
  'application/x-www-form-urlencoded',
  (text) => new URLSearchParams(text.split('&', FIELDS_MAX + 1).length > FIELDS_MAX ? '' : text),
);

/** What a route takes instead of JSON. A form arrives as URLSearchParams, with repeated fields kept. */
export type BodyKind = 'form' | 'json_or_form';

/** The parsed body; undefined if there is none. */
export type Body = Result<unknown, Problem>;

export const formIn = (value: unknown): URLSearchParams =>
  value instanceof URLSearchParams ? value : new URLSearchParams();

/** A shorter body isn't counted: it is no larger than the head of its request may be. */
const BYTES_COUNTED = 16 * 1024;

/** Reads a body, JSON unless another `kind` is given. */
export type ReadBody = (kind: BodyKind | undefined, context: RequestContext) => Awaitable<Body>;

export function createReadBody(pool: Pool): ReadBody {
  /**
   * A known length is counted before anything is read, the rest while reading: a length may be missing, or announced
   * more than once, which Bun lets through. Without a length only the first byte shows that there is a body.
   */
  async function readCounted(
    format: BodyFormat,
    context: RequestContext,
    isTaken: boolean,
    length: number,
  ): Promise<Body> {
    let isCut = false;
    const held = pool(() => {
      isCut = true; // what has arrived may be JSON by itself
      void reader.cancel().catch(() => {});
    });
    if (!held.hold(length)) return OVERLOADED_BODY;
    context.defer(() => held.hold(0));
    const reader = (context.request.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let bytes = 0;
    let text = '';
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        const { byteLength } = read.value;
        if (!isTaken && byteLength > 0) return err({ code: 'unsupported_media_type' });
        bytes += byteLength;
        if (bytes > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });
        if (bytes > Math.max(length, BYTES_COUNTED) && !held.hold(bytes)) return OVERLOADED_BODY;
        held.moved(byteLength);
        text += decoder.decode(read.value, { stream: true });
      }
      if (isCut) return INVALID_BODY;
      held.keep();
      context.bodyBytes = bytes;
      text += decoder.decode();
      return ok(bytes === 0 ? undefined : format.parse(text));
    } catch {
      return INVALID_BODY;
    }
  }

  return (kind, context) => {
    const { request, headers } = context;
    const length = Number(headers.get('content-length') ?? Number.NaN);
    // Without a length or chunks there is no body (RFC 9112 §6.3). `request.body` comes last: reading it is slow.
    if (length === 0 || (Number.isNaN(length) && request.body === null)) return NO_BODY;
    const type = headers.get('content-type');
    const format = formatFor(kind, type);
    const isTaken = isOf(format, type);
    if (Number.isNaN(length)) return readCounted(format, context, isTaken, 0);
    if (!isTaken) return err({ code: 'unsupported_media_type' });
    if (length > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });
    context.bodyBytes = length;
    return length <= BYTES_COUNTED ? readWhole(format, request) : readCounted(format, context, isTaken, length);
  };
}

/** Saves a promise over an async function, because nearly every request comes here. */
const readWhole = (format: BodyFormat, request: Request): Promise<Body> =>
  (format === JSON_FORMAT ? request.json() : request.text().then(format.parse)).then(ok<unknown>, () => INVALID_BODY);

function formatFor(kind: BodyKind | undefined, type: string | null): BodyFormat {
  if (kind === undefined) return JSON_FORMAT;
  return kind === 'form' || isOf(FORM_FORMAT, type) ? FORM_FORMAT : JSON_FORMAT;
}

const isOf = ({ type, otherSpellings }: BodyFormat, sent: string | null): boolean =>
  sent === type || (sent !== null && otherSpellings.test(sent));

export const NO_BODY: Body = ok(undefined);
/** Not what its type says, or cut off. */
const INVALID_BODY: Body = err({ code: 'invalid_json' });
const OVERLOADED_BODY: Body = err(OVERLOADED);
