// Sends a JSON-RPC response: as JSON, or as an event stream for a client that takes nothing else.

import { accepts } from '../http/accept.ts';
import type { RequestContext } from '../http/context.ts';
import { createResponseHeaders, SECURITY_HEADERS, UNCACHED_JSON_HEADERS } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import { EVENT_STREAM_HEADERS, eventText, type Streams } from '../http/stream.ts';
import type { RateLimitState } from '../lib/rate-limit.ts';
import { OVERLOADED } from '../problem.ts';

interface ReplyOptions {
  readonly status?: 200 | 400 | 404;
  readonly rateLimit?: RateLimitState | undefined;
}

export interface Reply {
  (context: RequestContext, text: string, options?: ReplyOptions): Response;
  attempt(context: RequestContext, text: string, options?: ReplyOptions): Response | null;
}

export function createReply(streams: Streams): Reply {
  const responseHeaders = createResponseHeaders(UNCACHED_JSON_HEADERS);

  function attempt(context: RequestContext, text: string, { status = 200, rateLimit }: ReplyOptions = {}) {
    if (status === 200 && !takesJson(context)) {
      return streams.text(context, eventText('message', text), { headers: EVENT_STREAM_HEADERS });
    }
    return streams.text(context, text, { status, headers: responseHeaders(rateLimit) });
  }

  const reply = (context: RequestContext, text: string, options?: ReplyOptions): Response =>
    attempt(context, text, options) ?? problemResponse(OVERLOADED, context.requestId);

  return Object.assign(reply, { attempt });
}

export const accepted = () => new Response(null, { status: 202, headers: SECURITY_HEADERS });

const EVENTS = 'text/event-stream';
/** As the specification requires of clients (2025-03-26 on, Streamable HTTP), and nearly all send. Needs no parsing. */
const JSON_AND_EVENTS = 'application/json, text/event-stream';

/** A client that takes neither gets JSON: it may be wrong about what it can read. */
function takesJson({ headers }: RequestContext): boolean {
  const accept = headers.get('accept');
  if (accept === null || accept === JSON_AND_EVENTS) return true;
  return accepts(accept, 'application/json') || !accepts(accept, EVENTS);
}

/** Only for a client that names event streams: one that takes anything may not know them. */
export function takesEvents({ headers }: RequestContext): boolean {
  const accept = headers.get('accept')?.toLowerCase() ?? '';
  return accept.includes(EVENTS) && accepts(accept, EVENTS);
}
