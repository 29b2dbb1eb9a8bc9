// GET /sse and POST /messages: the HTTP+SSE transport of 2024-11-05. The stream carries the replies to posted messages.
// Each POST is authenticated by its own credentials, and must come from the session's owner once there is one.

import { type Identify, Sender } from '../../calls/identify.ts';
import type { Operation } from '../../calls/operation.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import { OVERLOADED, type Problem } from '../../ground/problem.ts';
import type { Awaitable } from '../../ground/result.ts';
import { clientInfoOf, clientText, showsWidgets, WIDGETS_SHOWN } from '../../mcp/client.ts';
import { NO_CAPABILITIES } from '../../mcp/era.ts';
import { accepted, createHttpReplies, refusalOfSender, sendReply, unauthorized } from '../../mcp/http-replies.ts';
import {
  apiKeyIn,
  CODES,
  errorText,
  type Id,
  type Message,
  type RequestMessage,
  type RpcError,
  readMessage,
} from '../../mcp/message.ts';
import { makesCall } from '../../mcp/methods.ts';
import { deniedText } from '../../mcp/results.ts';
import type { Mcp, Peer } from '../../mcp/server.ts';
import type { Log } from '../../watch/log.ts';
import type { RequestContext } from '../../web/context.ts';
import { problemResponse, type SignIn } from '../../web/problem-response.ts';
import type { Streams } from '../../web/stream.ts';
import { asVisitor, createSessions, type Session, type Sessions, type Visitor } from './sessions.ts';

export interface SseRouteOptions {
  readonly mcp: Mcp;
  /** Returns what the request calls; undefined if it calls nothing that is there. */
  readonly calledBy: (request: RequestMessage) => Operation | undefined;
  readonly streams: Streams;
  readonly identify: Identify;
  /** `path`: that of PUBLIC_URL, empty or `/…`. */
  readonly address: { readonly path: string };
  /** Where OAuth clients sign in; null: they are never challenged. */
  readonly signIn: SignIn | null;
  readonly config: { readonly reusePort: boolean };
  readonly log: Log;
}

const ID_IN_USE: RpcError = { code: CODES.invalidRequest, message: 'A request with this id is under way' };

export type SseRoutes = ReturnType<typeof sseRoutes>;

/** Creates the handlers of both routes, for `index.ts`, which answers what needs no session. */
export function sseRoutes({ mcp, calledBy, streams, identify, address: server, signIn, log }: SseRouteOptions) {
  const sessions = createSessions();
  const replies = createHttpReplies(streams);
  const reply = createReply(mcp, sessions);

  async function open(context: RequestContext, address: string): Promise<Response> {
    const { requestId } = context;
    const sender = new Sender(context, identify, log, signIn);
    const bad = signIn && (await sender.badBearer());
    if (bad !== null) return unauthorized(sender, bad);
    const visitor = await visitorOf(sender, null);
    if (visitor.owners.length === 0 && visitor.unknown !== null) return problemResponse(visitor.unknown, requestId);
    const session = sessions.open((onEnd) => streams.open(context, onEnd), visitor, address);
    if (session === undefined) return problemResponse(OVERLOADED, requestId);
    // A path without an origin: clients insist on the origin they connected to.
    session.stream.send('endpoint', `${server.path}/messages?sessionId=${session.id}`);
    return session.stream.response;
  }

  const visitorOf = async (sender: Sender, metaKey: string | null): Promise<Visitor> =>
    asVisitor(await sender.identify(metaKey));

  /** Answers a message of a session that is there. */
  const post = (sessionId: string, context: RequestContext, posted: unknown): Promise<Response> =>
    sessions.answering(sessionId, () => answer(sessionId, context, posted));

  async function answer(sessionId: string, context: RequestContext, posted: unknown): Promise<Response> {
    const message = readMessage(posted);
    if (message.kind === 'request') context.tool = calledBy(message)?.name;
    const sender = new Sender(context, identify, log, signIn);
    const visitor = await visitorOf(sender, keyIn(message));
    const found = sessions.find(sessionId, visitor);
    if (!found.ok) return refusalOfVisitor(found.error, sender, visitor);
    const { value: session } = found;
    context.clientInfo = { name: session.client };
    const mayChange = session.owners.length === 0 || visitor.owners.length > 0;
    return (await refusalOfSender(sender)) ?? handle(session, sender, message, mayChange);
  }

  /**
   * Refuses a visitor to whom the session isn't shown. A workload's token that has run out isn't verified, so it names
   * nobody; hosts bring a new one only after a 401.
   */
  async function refusalOfVisitor(problem: Problem, sender: Sender, { named }: Visitor): Promise<Response> {
    const ended = named.length === 0 ? await sender.endedKey() : null;
    return ended === null ? problemResponse(problem, sender.context.requestId) : unauthorized(sender, ended);
  }

  function handle(session: Session, sender: Sender, message: Message, mayChange: boolean): Awaitable<Response> {
    if (message.kind === 'invalid') return replies.refusal(sender.context, errorText(message.id, message.error));
    if (mayChange && message.kind === 'notification' && message.method === 'notifications/cancelled') {
      session.calls.get(message.params.requestId as Id)?.abort();
    }
    if (message.kind !== 'request') return accepted();
    if (mayChange && message.method === 'initialize') {
      session.capabilities = showsWidgets(message.params.capabilities) ? WIDGETS_SHOWN : NO_CAPABILITIES;
      session.client = clientText(clientInfoOf(message));
      sender.context.clientInfo = { name: session.client };
    }
    if (!makesCall(message.method)) return reply(session, sender, message);
    const { calls } = session;
    if (calls.has(message.id)) return refuse(session, sender, message, ID_IN_USE);
    if (calls.size >= LIMITS.sessionCalls.each) return problemResponse(OVERLOADED, sender.context.requestId);
    const canceller = new AbortController();
    calls.set(message.id, canceller);
    return reply(session, sender, message, canceller);
  }

  /** Refuses a request without handling it; those who watch requests learn of it. */
  async function refuse(
    { capabilities }: Session,
    sender: Sender,
    message: RequestMessage,
    error: RpcError,
  ): Promise<Response> {
    const refused = { error, status: 400 } as const;
    const { text } = await mcp(message, { sender, era: 'legacy', capabilities, refused });
    return replies.refusal(sender.context, text);
  }

  return { sessions, open, post };
}

function createReply(mcp: Mcp, sessions: Sessions) {
  /** Responds to the POST with 202 or a challenge; the reply comes on the stream. */
  return function reply(
    session: Session,
    sender: Sender,
    message: RequestMessage,
    canceller?: AbortController,
  ): Promise<Response> {
    const { stream, capabilities } = session;
    const begun = Promise.withResolvers<Response>();
    // A cancelled request gets no response (basic/utilities/cancellation), and no progress.
    const isCancelled = () => canceller?.signal.aborted === true;
    function begin() {
      begun.resolve(accepted());
      return (text: string) => {
        if (!isCancelled()) stream.offer('message', text);
      };
    }
    async function finished(): Promise<Response> {
      const peer: Peer = { sender, era: 'legacy', capabilities, begin, canceller };
      try {
        const { text, challenge, call } = await mcp(message, peer);
        if (challenge) return unauthorized(sender, challenge, call?.response.limits);
        if (!isCancelled()) sendReply(stream, text, () => deniedText(message, 'legacy', OVERLOADED));
        return accepted();
      } finally {
        if (canceller !== undefined) session.calls.delete(message.id);
      }
    }
    return Promise.race([begun.promise, sessions.answering(session.id, finished)]);
  };
}

/** Returns the API key in the metadata of a message. Clients may send it with all of them. */
const keyIn = (message: Message): string | null => ('params' in message ? apiKeyIn(message.params) : null);
