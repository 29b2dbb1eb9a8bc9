// POST /mcp: Streamable HTTP of every revision, without sessions, so that any process can handle any request. Reads
// what was posted and writes replies: as JSON, as an event stream, or as a JSON array for a batch.

import type { Call } from '../calls/call.ts';
import { type Identify, Sender } from '../calls/identify.ts';
import type { Recheck } from '../calls/proof.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import type { RateLimitStates } from '../ground/rate-limit.ts';
import type { Log } from '../watch/log.ts';
import type { Body } from '../web/body.ts';
import { carriesCredential, holdingOpen, type RequestContext } from '../web/context.ts';
import { accepts, createResponseHeaders, SECURITY_HEADERS, UNCACHED_JSON_HEADERS } from '../web/headers.ts';
import { challengeFor, problemResponse, type SignIn } from '../web/problem-response.ts';
import { type BodyHandler, refuseInClear } from '../web/router.ts';
import { EVENT_STREAM_HEADERS, type EventStream, eventText, type Streams } from '../web/stream.ts';
import { classify, type IncomingRequest, NO_CAPABILITIES } from './era.ts';
import {
  carriesApiKey,
  errorText,
  type Message,
  PARSE_ERROR,
  progressTokenOf,
  type RequestMessage,
} from './message.ts';
import { deniedText } from './results.ts';
import type { Mcp, Peer, Reply } from './server.ts';

export interface McpRouteOptions {
  readonly mcp: Mcp;
  readonly recheck: Recheck;
  readonly streams: Streams;
  readonly identify: Identify;
  /** Where OAuth clients sign in; null: they are never challenged. */
  readonly signIn: SignIn | null;
  /** Challenge every request without a credential, so that clients sign in when they connect. */
  readonly eager: boolean;
  readonly log: Log;
}

interface BatchReply {
  readonly text: string;
  /** The call that was made, with the text of a refusal in its place. */
  readonly call?: Call | undefined;
  readonly denied?: (problem: Problem) => string;
}

/** Once the responses of a batch have this many characters, its other requests are refused and do not run. */
const BATCH_CHARS_MAX = 1024 * 1024;

export function mcpRoute({ mcp, recheck, streams, identify, signIn, eager, log }: McpRouteOptions): BodyHandler {
  const headersFor = createResponseHeaders(UNCACHED_JSON_HEADERS);

  /** Null when there is no room for the text. */
  function write(context: RequestContext, text: string, status = 200, limits: RateLimitStates = []): Response | null {
    return status === 200 && !takesJson(context)
      ? streams.text(context, eventText('message', text), { headers: EVENT_STREAM_HEADERS })
      : streams.text(context, text, { status, headers: headersFor(limits) });
  }

  const refusal = (context: RequestContext, text: string): Response =>
    write(context, text, 400) ?? problemResponse(OVERLOADED, context.requestId);

  /** The one response to the POST. */
  function respond({ text, status, call, challenge }: Reply, request: RequestMessage, peer: Peer): Response {
    const { era } = peer;
    const { context } = peer.sender;
    const limits = call?.limits;
    if (challenge) return problemResponse(challenge.problem, context.requestId, challenge.header, limits);
    return (
      write(context, text, status, limits) ??
      write(context, deniedText(request, era, OVERLOADED), 200, limits) ??
      problemResponse(OVERLOADED, context.requestId)
    );
  }

  async function single(sender: Sender, { request, era, capabilities }: IncomingRequest): Promise<Response> {
    const { context } = sender;
    const isModern = era === 'modern';
    const peer: Peer = {
      sender,
      era,
      capabilities,
      signIn,
      canceller: isModern ? context.request : undefined,
    };
    const isStream = progressTokenOf(request.params._meta) !== undefined && takesEvents(context);
    if (isStream) return streamed(request, peer);
    return respond(await mcp(request, peer), request, peer);
  }

  /** A call with a progress token is a stream from its beginning; whatever else comes in its place is not. */
  function streamed(request: RequestMessage, peer: Peer): Promise<Response> {
    const { era } = peer;
    const { context } = peer.sender;
    const opened = Promise.withResolvers<Response>();
    const left = new AbortController();
    let stream: EventStream | undefined;
    const canceller = {
      /** Closing the stream cancels. When a client resets the connection, Deno ends the stream but aborts no request. */
      get signal() {
        return AbortSignal.any([context.request.signal, left.signal]);
      },
    };
    function begin() {
      const begun = streams.open(context, () => left.abort());
      stream = begun;
      opened.resolve(begun.response);
      return (message: string) => begun.offer('message', message);
    }
    async function finished(): Promise<Response> {
      const reply = await mcp(request, { ...peer, begin, canceller: era === 'modern' ? canceller : undefined });
      if (stream === undefined) return respond(reply, request, peer);
      sendReply(stream, reply.text, () => deniedText(request, era, OVERLOADED));
      stream.close();
      return stream.response;
    }
    return Promise.race([opened.promise, finished()]);
  }

  /** One after the other: a hundred large responses at once could take all memory. */
  async function replies(sender: Sender, messages: readonly Message[]): Promise<BatchReply[]> {
    const peer: Peer = { sender, era: 'legacy', capabilities: NO_CAPABILITIES, signIn: null };
    const replies: BatchReply[] = [];
    let chars = 0;
    for (const message of messages) {
      if (message.kind === 'invalid') replies.push({ text: errorText(message.id, message.error) });
      if (message.kind !== 'request') continue;
      const denied = (problem: Problem) => deniedText(message, 'legacy', problem);
      const { text, call } =
        chars < BATCH_CHARS_MAX ? await mcp(message, peer) : { text: denied(OVERLOADED), call: undefined };
      chars += text.length;
      replies.push({ text, call, denied });
    }
    return replies;
  }

  /** All replies leave together, when the last is done: by then the proof of a key may be too old. */
  async function batch(sender: Sender, messages: readonly Message[]): Promise<Response> {
    const { context } = sender;
    const made = await holdingOpen(context, Number.POSITIVE_INFINITY, replies(sender, messages));
    if (made.length === 0) return accepted();
    const refused = await recheck(made.flatMap(({ call }) => call ?? []));
    // No join, which copies: a text that finds no room is never flattened.
    const text = made.reduce((all, { text, call, denied }, index) => {
      const problem = call && refused.get(call);
      return `${all}${index === 0 ? '' : ','}${problem && denied ? denied(problem) : text}`;
    }, '[');
    return write(context, `${text}]`) ?? problemResponse(OVERLOADED, context.requestId);
  }

  const challenge = (context: RequestContext, problem: Problem): Response =>
    problemResponse(problem, context.requestId, challengeFor(problem, signIn?.under(context.publicUrl) ?? null));

  /** Refuses whoever must sign in first, whatever was posted. */
  async function refusalOf(sender: Sender, value: unknown): Promise<Response | null> {
    const { context } = sender;
    if (!context.acceptsCredentials && carriesApiKey(value)) {
      return problemResponse(refuseInClear(log, context), context.requestId);
    }
    if (signIn === null) return null;
    if (eager && !carriesCredential(context.credentials) && !carriesApiKey(value)) {
      return challenge(context, { code: signIn.handsOutKeys ? 'missing_api_key' : 'missing_token' });
    }
    const problem = await sender.badBearer();
    return problem && challenge(context, problem);
  }

  return async (context, body: Body) => {
    if (!body.ok) {
      return body.error.code === 'invalid_json'
        ? refusal(context, errorText(undefined, PARSE_ERROR))
        : problemResponse(body.error, context.requestId);
    }
    const sender = new Sender(context, identify, log);
    const refused = await refusalOf(sender, body.value);
    if (refused !== null) return refused;
    const classified = classify(body.value, context.headers);
    switch (classified.kind) {
      case 'request':
        return single(sender, classified);
      case 'batch':
        return batch(sender, classified.messages);
      case 'accepted':
        return accepted();
      case 'refused':
        return refusal(context, errorText(classified.id, classified.error));
    }
  };
}

/** Sends a reply on a stream, or why there is none. A client that leaves even that unread is cut off. */
export function sendReply(stream: EventStream, text: string, refusal: () => string): void {
  if (!stream.send('message', text) && !stream.send('message', refusal())) stream.cut();
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
function takesEvents({ headers }: RequestContext): boolean {
  const accept = headers.get('accept')?.toLowerCase() ?? '';
  return accept.includes(EVENTS) && accepts(accept, EVENTS);
}
