// POST /mcp: Streamable HTTP of every revision, without sessions, so that any process can handle any request. Answers a
// single request with a response or a stream, a batch one after the other, and notifications with 202.

import type { Call } from '../calls/call.ts';
import { type Identify, Sender } from '../calls/identify.ts';
import type { Operation } from '../calls/operation.ts';
import type { Recheck } from '../calls/proof.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import { type Awaitable, chain } from '../ground/result.ts';
import type { Log } from '../watch/log.ts';
import type { Body } from '../web/body.ts';
import { carriesCredential, holdingOpen, type RequestContext } from '../web/context.ts';
import { namesMediaType } from '../web/headers.ts';
import { problemResponse, type SignIn } from '../web/problem-response.ts';
import type { BodyHandler } from '../web/router.ts';
import type { EventStream, Streams } from '../web/stream.ts';
import { type Classified, classify, type IncomingRequest, NO_CAPABILITIES, type Refused } from './era.ts';
import {
  accepted,
  createHttpReplies,
  EVENTS,
  type HttpReplies,
  postedIn,
  refusalOfSender,
  sendReply,
  unauthorized,
} from './http-replies.ts';
import { apiKeyIn, carriesApiKey, errorText, type Message, progressTokenOf, type RequestMessage } from './message.ts';
import { deniedText } from './results.ts';
import type { Mcp, Peer } from './server.ts';

interface McpRouteOptions {
  readonly mcp: Mcp;
  /** Returns what the request calls; undefined if it calls nothing that is there. */
  readonly calledBy: (request: RequestMessage) => Operation | undefined;
  readonly recheck: Recheck;
  readonly streams: Streams;
  readonly identify: Identify;
  /** Where OAuth clients sign in; null: they are never challenged. */
  readonly signIn: SignIn | null;
  /** Challenges every request without a credential, so that clients sign in when they connect. */
  readonly eager: boolean;
  readonly log: Log;
}

export function mcpRoute(options: McpRouteOptions): BodyHandler {
  const { mcp, calledBy, recheck, streams, identify, signIn, eager, log } = options;
  const replies = createHttpReplies(streams);
  const batch = createBatch(mcp, recheck, replies);
  const single = createSingle(mcp, streams, replies);

  /** Refuses senders who must first get another credential, whatever they posted. Synchronous in the usual case. */
  function refusalOf(sender: Sender, value: unknown, classified: Classified): Awaitable<Response | null> {
    const { context } = sender;
    const operation = classified.kind === 'request' ? calledBy(classified.request) : undefined;
    if (!carriesCredential(context.credentials)) {
      if (signIn === null || !eager || carriesApiKey(value)) return null;
      return unauthorized(sender, sender.missing(operation), operation?.initialLimits);
    }
    // A guard for keys verifies the key anyway, and server.ts turns its refusal into the 401; single does so if no guard
    // runs.
    const isGuarded =
      classified.kind === 'request' && operation?.credential === 'api_key' && !isStreamed(classified.request, context);
    return signIn === null && isGuarded ? null : refusalOfSender(sender, operation?.initialLimits);
  }

  return (context, body: Body) => {
    const posted = postedIn(context, body, log);
    if (!posted.ok) return posted.error;
    const { value } = posted;
    const sender = new Sender(context, identify, log, signIn);
    const classified = classify(value, context.headers);
    context.tool = lastCalledIn(classified)?.name;
    return chain(refusalOf(sender, value, classified), (refused) => refused ?? answer(sender, classified));
  };

  /** Returns what a POST calls; of a batch the last one. */
  function lastCalledIn(classified: Classified): Operation | undefined {
    if (classified.kind === 'accepted') return undefined;
    if (classified.kind !== 'batch') return classified.request && calledBy(classified.request);
    return classified.messages
      .map((message) => (message.kind === 'request' ? calledBy(message) : undefined))
      .findLast(Boolean);
  }

  function answer(sender: Sender, classified: Classified): Awaitable<Response> {
    switch (classified.kind) {
      case 'request':
        return single(sender, classified);
      case 'batch':
        return batch(sender, classified.messages);
      case 'accepted':
        return accepted();
      case 'refused':
        return refuse(sender, classified);
    }
  }

  /** Refuses what `classify` refuses. A request that could be read is answered as others are, for those who watch them. */
  function refuse(sender: Sender, { id, error, request }: Refused): Awaitable<Response> {
    if (request === undefined) return replies.refusal(sender.context, errorText(id, error));
    const refused = { error, status: 400 } as const;
    const peer: Peer = { sender, era: 'legacy', capabilities: NO_CAPABILITIES, refused };
    return chain(mcp(request, peer), (reply) => replies.respond(reply, request, peer));
  }
}

/** Creates the handler of a single request, which responds with a stream if the client wants progress. */
function createSingle(mcp: Mcp, streams: Streams, replies: HttpReplies) {
  function single(sender: Sender, { request, era, capabilities }: IncomingRequest): Awaitable<Response> {
    const { context } = sender;
    const canceller = era === 'modern' ? context.request : undefined;
    const peer: Peer = { sender, era, capabilities, canceller };
    if (isStreamed(request, context)) return streamed(request, peer);
    return chain(mcp(request, peer), (reply) => {
      const isChecked = reply.call !== undefined || !carriesCredential(context.credentials);
      if (isChecked) return replies.respond(reply, request, peer);
      // The parameters may have been refused before a guard looked at the key.
      const refusal = refusalOfSender(sender, reply.operation?.initialLimits);
      return chain(refusal, (refused) => refused ?? replies.respond(reply, request, peer));
    });
  }

  /** Streams a call with a progress token as soon as it begins. If it is refused before, responds without a stream. */
  function streamed(request: RequestMessage, peer: Peer): Promise<Response> {
    const { era } = peer;
    const { context } = peer.sender;
    const opened = Promise.withResolvers<Response>();
    const left = new AbortController();
    let stream: EventStream | undefined;
    const canceller = {
      /**
       * Cancels the call when the stream closes: if a client resets the connection, Deno ends the stream but doesn't
       * abort the request.
       */
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
      await peer.sender.identify(apiKeyIn(request.params)); // when the stream opens, the access log names the sender
      const reply = await mcp(request, { ...peer, begin, canceller: era === 'modern' ? canceller : undefined });
      if (stream === undefined) return replies.respond(reply, request, peer);
      sendReply(stream, reply.text, () => deniedText(request, era, OVERLOADED));
      stream.close();
      return stream.response;
    }
    return Promise.race([opened.promise, finished()]);
  }

  return single;
}

/**
 * Returns whether the reply is a stream, because the client wants progress and names event streams. One that accepts anything
 * may not know them.
 */
const isStreamed = ({ params }: RequestMessage, { headers }: RequestContext): boolean =>
  progressTokenOf(params._meta) !== undefined && namesMediaType(headers.get('accept'), EVENTS);

// Runs a batch of JSON-RPC messages (2025-03-26 and before), one after the other. All replies leave together at the
// end.

interface BatchReply {
  readonly text: string;
  /** The call that the message made; `denied` returns the text that replaces its reply if it is refused. */
  readonly call?: Call | undefined;
  readonly denied?: (problem: Problem) => string;
}

/** Once the replies have this many characters, the batch's other requests are refused without running. */
const BATCH_CHARS_MAX = 1024 * 1024;

function createBatch(mcp: Mcp, recheck: Recheck, replies: HttpReplies) {
  /** Runs the messages one after the other, because a hundred large replies at once could exhaust the memory. */
  async function run(sender: Sender, messages: readonly Message[]): Promise<BatchReply[]> {
    const peer: Peer = { sender, era: 'legacy', capabilities: NO_CAPABILITIES };
    const answers: BatchReply[] = [];
    let chars = 0;
    for (const message of messages) {
      if (message.kind === 'invalid') answers.push({ text: errorText(message.id, message.error) });
      if (message.kind !== 'request') continue;
      const denied = (problem: Problem) => deniedText(message, 'legacy', problem);
      const { text, call }: BatchReply =
        chars < BATCH_CHARS_MAX ? await mcp(message, peer) : { text: denied(OVERLOADED) };
      chars += text.length;
      answers.push({ text, call, denied });
    }
    return answers;
  }

  return async (sender: Sender, messages: readonly Message[]): Promise<Response> => {
    const { context } = sender;
    const answers = await holdingOpen(context, Number.POSITIVE_INFINITY, run(sender, messages));
    if (answers.length === 0) return accepted();
    const refused = await recheck(answers.flatMap(({ call }) => call ?? [])); // by now a proof may be stale
    // Not join, which copies: a text without room is never flattened.
    const text = answers.reduce((all, { text, call, denied }, index) => {
      const problem = call && refused.get(call);
      return `${all}${index === 0 ? '' : ','}${problem && denied ? denied(problem) : text}`;
    }, '[');
    return replies.write(context, `${text}]`) ?? problemResponse(OVERLOADED, context.requestId);
  };
}
