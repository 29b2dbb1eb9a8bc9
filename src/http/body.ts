// Reads a body, JSON or a form, within bounds, and checks its media type, size and syntax, in this order.

import { type Awaitable, err, ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';
import type { RequestContext } from './context.ts';

export const BODY_BYTES_MAX = 1024 * 1024; // far above any sensible tool input, far below what hurts

/** A kind of body, and how it is read. */
export interface BodyFormat {
  readonly type: string;
  readonly otherSpellings: RegExp;
  readonly parse: (text: string) => unknown;
  /** Reads and parses a whole body. */
  readonly read: (request: Request) => Promise<unknown>;
}

// Any parameter may follow, except another charset: unknown ones are to be ignored (RFC 2045 §5). A comma
// outside quotes would begin another type.
const OTHER_CHARSET = String.raw`(?:.*;)?\s*charset\s*=(?!\s*(?:"utf-?8"|utf-?8)\s*(?:;|$))`;
const PARAMETERS = '[^",]*(?:"[^"]*"[^",]*)*';
const spellingsOf = (type: string) => new RegExp(`^${type}\\s*(?:;(?!${OTHER_CHARSET})${PARAMETERS})?$`, 'i');

const formatOf = (type: string, how: Pick<BodyFormat, 'parse' | 'read'>): BodyFormat => ({
  type,
  otherSpellings: spellingsOf(type),
  ...how,
});

const JSON_FORMAT = formatOf('application/json', { parse: JSON.parse, read: (request) => request.json() });

const parseForm = (text: string) => new URLSearchParams(text);
const FORM_FORMAT = formatOf('application/x-www-form-urlencoded', {
  parse: parseForm,
  read: async (request) => parseForm(await request.text()),
});

/** What a route takes instead of JSON. A form arrives as URLSearchParams: each field is whatever was sent, as often as it was sent. */
export type BodyKind = 'form' | 'json_or_form';

/** The parsed body; undefined if there is none. */
export type Body = Result<unknown, Problem>;

/**
 * Checks a body before it is read, JSON unless another `kind` is given. Returns the format to read it in when its length
 * and type are given and good; else the body, or why it isn't taken.
 *
 * The caller awaits `format.read` itself, and takes a rejection as INVALID_BODY: awaiting it here would cost
 * every request one more promise, which is as much as reading its headers.
 */
export function checkBody(kind: BodyKind | undefined, context: RequestContext): BodyFormat | Awaitable<Body> {
  const { request, headers } = context;
  const length = headers.get('content-length');
  // Without a length or chunks there is no body (RFC 9112 §6.3). `request.body` is checked last, because touching it is
  // slow.
  if (length === '0' || (length === null && request.body === null)) return NO_BODY;
  const type = headers.get('content-type');
  const format = formatFor(kind, type);
  const isTaken = isOf(format, type);
  const bytes = Number(length ?? Number.NaN);
  if (Number.isNaN(bytes)) return readUnmeasured(format, context, isTaken);
  if (!isTaken) return err({ code: 'unsupported_media_type' });
  if (bytes > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });
  context.bodyBytes = bytes;
  return format;
}

function formatFor(kind: BodyKind | undefined, type: string | null): BodyFormat {
  if (kind === undefined) return JSON_FORMAT;
  return kind === 'form' || isOf(FORM_FORMAT, type) ? FORM_FORMAT : JSON_FORMAT;
}

const isOf = ({ type, otherSpellings }: BodyFormat, sent: string | null): boolean =>
  sent === type || (sent !== null && otherSpellings.test(sent));

/** Not what its type says, or cut off by the client. */
export const INVALID_BODY: Body = err({ code: 'invalid_json' });
export const NO_BODY: Body = ok(undefined);

// No length announced, or the same one more than once, which Bun lets through: count while reading, and stop at the limit.
// Only the first byte shows that there is a body.
async function readUnmeasured(format: BodyFormat, context: RequestContext, isTaken: boolean): Promise<Body> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let text = '';
  try {
    for await (const chunk of context.request.body as unknown as AsyncIterable<Uint8Array>) {
      if (!isTaken && chunk.byteLength > 0) return err({ code: 'unsupported_media_type' });
      bytes += chunk.byteLength;
      if (bytes > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });
      text += decoder.decode(chunk, { stream: true });
    }
    context.bodyBytes = bytes;
    text += decoder.decode();
    return ok(bytes === 0 ? undefined : format.parse(text));
  } catch {
    return INVALID_BODY;
  }
}
