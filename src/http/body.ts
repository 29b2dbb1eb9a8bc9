// Reads a JSON or form body, checking its media type, size and syntax, in this order. The bytes of long bodies are
// bounded for all clients together until their requests are over; a client that sends too slowly is cut off.

import { networkOf } from '../lib/ip.ts';
import { type Awaitable, err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { LIMITS } from '../limits/index.ts';
import { createTransfers } from '../limits/min-rate.ts';
import { createShare, type Release } from '../limits/share.ts';
import type { Log } from '../log/log.ts';
import { OVERLOADED, type Problem } from '../problem.ts';
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
/** Of a body of unknown length, this much is taken from the total at a time. */
const BYTES_TAKEN = 64 * 1024;

/** Reads a body, JSON unless another `kind` is given. */
export type ReadBody = (kind: BodyKind | undefined, context: RequestContext) => Awaitable<Body>;

export function createReadBody(clock: Clock, log: Log): ReadBody {
  const messages = createShare(LIMITS.messages);
  const transfers = createTransfers(clock, log);

  function take(context: RequestContext, bytes: number): Release | null {
    const network = networkOf(context.clientAddress());
    let release = messages.take(network, bytes);
    if (release === null) {
      transfers.makeRoom();
      release = messages.take(network, bytes);
    }
    if (release !== null) context.defer(release);
    return release;
  }

  /**
   * Counts while reading and stops at the limit: a length may be missing, or announced more than once, which Bun lets
   * through. Without a length only the first byte shows that there is a body. A known length was taken before.
   */
  async function readCounting(
    format: BodyFormat,
    context: RequestContext,
    isTaken: boolean,
    bytesTakenBefore = BYTES_COUNTED,
    releases: Release[] = [],
  ): Promise<Body> {
    const reader = (context.request.body as ReadableStream<Uint8Array>).getReader();
    let isCut = false;
    const transfer = transfers.watch(() => {
      isCut = true; // what has arrived may be JSON by itself
      for (const release of releases) release(); // others wait for the room
      void reader.cancel().catch(() => {});
    });
    const decoder = new TextDecoder();
    let bytesTaken = bytesTakenBefore;
    let bytes = 0;
    let text = '';
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        const { byteLength } = read.value;
        if (!isTaken && byteLength > 0) return err({ code: 'unsupported_media_type' });
        bytes += byteLength;
        if (bytes > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });
        for (; bytes > bytesTaken; bytesTaken += BYTES_TAKEN) {
          const release = take(context, BYTES_TAKEN);
          if (release === null) return OVERLOADED_BODY;
          releases.push(release);
        }
        transfer.moved(byteLength);
        text += decoder.decode(read.value, { stream: true });
      }
      if (isCut) return INVALID_BODY;
      context.bodyBytes = bytes;
      text += decoder.decode();
      return ok(bytes === 0 ? undefined : format.parse(text));
    } catch {
      return INVALID_BODY;
    } finally {
      transfer.end();
    }
  }

  return (kind, context) => {
    const { request, headers } = context;
    const bytes = Number(headers.get('content-length') ?? Number.NaN);
    // Without a length or chunks there is no body (RFC 9112 §6.3). `request.body` comes last: reading it is slow.
    if (bytes === 0 || (Number.isNaN(bytes) && request.body === null)) return NO_BODY;
    const type = headers.get('content-type');
    const format = formatFor(kind, type);
    const isTaken = isOf(format, type);
    if (Number.isNaN(bytes)) return readCounting(format, context, isTaken);
    if (!isTaken) return err({ code: 'unsupported_media_type' });
    if (bytes > BODY_BYTES_MAX) return err({ code: 'payload_too_large' });
    context.bodyBytes = bytes;
    if (bytes <= BYTES_COUNTED) return readWhole(format, request);
    const release = take(context, bytes);
    return release === null ? OVERLOADED_BODY : readCounting(format, context, isTaken, bytes, [release]);
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
