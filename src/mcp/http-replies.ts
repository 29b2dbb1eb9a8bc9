// Reads what was posted, and writes MCP replies over HTTP: as JSON or an event, depending on what the client accepts, or
// on an open stream. If there is no room for a reply, sends an error instead.

import type { Sender } from '../calls/identify.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import type { RateLimitStates } from '../ground/rate-limit.ts';
import { type Awaitable, chain, err, ok, type Result } from '../ground/result.ts';
import type { Log } from '../watch/log.ts';
import type { Body } from '../web/body.ts';
import type { RequestContext } from '../web/context.ts';
import { accepts, createResponseHeaders, SECURITY_HEADERS, UNCACHED_JSON_HEADERS } from '../web/headers.ts';
import { challengeFor, problemResponse, withCode } from '../web/problem-response.ts';
import { refuseInClear } from '../web/router.ts';
import { EVENT_STREAM_HEADERS, type EventStream, eventText, type Streams } from '../web/stream.ts';
import { clientInfoOf } from './client.ts';
import { carriesApiKey, errorText, metaOf, PARSE_ERROR, type RequestMessage } from './message.ts';
import { deniedText } from './results.ts';
import type { Peer, Reply } from './server.ts';

export type HttpReplies = ReturnType<typeof createHttpReplies>;

export function createHttpReplies(streams: Streams) {
  const headersFor = createResponseHeaders(UNCACHED_JSON_HEADERS);

  /** Creates a response with the text. Returns null if there is no room for it. */
  function write(context: RequestContext, text: string, status = 200, limits: RateLimitStates = []): Response | null {
    return status === 200 && !acceptsJson(context)
      ? streams.text(context, eventText('message', text), { headers: EVENT_STREAM_HEADERS })
      : streams.text(context, text, { status, headers: headersFor(limits) });
  }

  return {
    write,
    /** Creates a 400 with the text of a JSON-RPC error. */
    refusal: (context: RequestContext, text: string): Response =>
      write(context, text, 400) ?? problemResponse(OVERLOADED, context.requestId),
    /** Creates the response to a POST of a single request. */
    respond(
      { text, status, operation, call, challenge }: Reply,
      request: RequestMessage,
      { era, sender }: Peer,
    ): Response {
      const { context } = sender;
      const limits = call?.response.limits ?? operation?.initialLimits;
      if (challenge) return unauthorized(sender, challenge, limits);
      return (
        write(context, text, status, limits) ??
        write(context, deniedText(request, era, OVERLOADED), 200, limits) ??
        problemResponse(OVERLOADED, context.requestId)
      );
    },
  };
}

/** Returns what was posted, and notes its sender; or the refusal of a body that can't be read, or has a key over plain HTTP. */
export function postedIn(context: RequestContext, body: Body, log: Log): Result<unknown, Response> {
  if (!body.ok) {
    const { error } = body;
    return err(error.code === 'invalid_json' ? unreadable(error) : problemResponse(error, context.requestId));
  }
  context.meta = metaOf(body.value);
  context.clientInfo = clientInfoOf(body.value);
  if (context.acceptsCredentials || !carriesApiKey(body.value)) return ok(body.value);
  return err(problemResponse(refuseInClear(log, context), context.requestId));
}

const unreadable = ({ code }: Problem): Response =>
  withCode(new Response(errorText(undefined, PARSE_ERROR), { status: 400, headers: UNCACHED_JSON_HEADERS }), code);

/** Sends a reply on a stream, or the refusal if there is no room. Cuts the stream if there is no room even for that. */
export function sendReply(stream: EventStream, text: string, refusal: () => string): void {
  if (!stream.send('message', text) && !stream.send('message', refusal())) stream.cut();
}

/** Creates the 401 for a bad or missing credential. It names no metadata for a key of X-API-Key: no client signs in for it. */
export function unauthorized({ context, signIn }: Sender, problem: Problem, limits?: RateLimitStates) {
  const { requestId, credentials, publicUrl } = context;
  const isOfClient = problem.code !== 'invalid_api_key' || credentials.xApiKey === null;
  return problemResponse(problem, requestId, challengeFor(problem, isOfClient ? signIn : null, publicUrl), limits);
}

/** Returns the 401 for a whole POST: for a bad bearer token if clients sign in, for a key that has ended always. */
export function refusalOfSender(sender: Sender, limits?: RateLimitStates): Awaitable<Response | null> {
  const bad = sender.signIn && sender.badBearer();
  const found = chain(bad, (problem) => problem ?? sender.endedKey());
  return chain(found, (problem) => problem && unauthorized(sender, problem, limits));
}

export const accepted = () => new Response(null, { status: 202, headers: SECURITY_HEADERS });

/**
 * The Accept header that the specification demands of clients (2025-03-26 on, Streamable HTTP). Nearly all send exactly
 * this, which saves parsing it.
 */
const JSON_AND_EVENTS = 'application/json, text/event-stream';

/** Returns whether to reply in JSON. A client that accepts neither gets it, too: its header may be wrong. */
function acceptsJson({ headers }: RequestContext): boolean {
  const accept = headers.get('accept');
  if (accept === null || accept === JSON_AND_EVENTS) return true;
  return accepts(accept, 'application/json') || !accepts(accept, EVENTS);
}

export const EVENTS = 'text/event-stream';
