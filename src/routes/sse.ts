// GET /sse and POST /messages: the HTTP+SSE transport of 2024-11-05. The stream has the responses to what is posted.
// Every POST is authenticated by its own headers, and must come from the session's owner once it has one.

import type { CheckBearer } from '../calls/bearer.ts';
import { callerOf, callOf } from '../calls/call.ts';
import type { Operation, ToolResult } from '../calls/operation.ts';
import type { Run } from '../calls/run.ts';
import type { Body } from '../http/body.ts';
import { challengeFor, type SignIn } from '../http/challenge.ts';
import { refuseInClear } from '../http/checks.ts';
import type { RequestContext } from '../http/context.ts';
import { holdingOpen } from '../http/context.ts';
import { type Credentials, carriesCredential, metaApiKey } from '../http/credentials.ts';
import { UNCACHED_JSON_HEADERS } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import { type BodyHandler, type Handler, queryOf } from '../http/router.ts';
import { EVENT_STREAM_HEADERS, type Streams } from '../http/stream.ts';
import { type Awaitable, chain, err } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import { legacyContext } from '../mcp/era.ts';
import {
  CODES,
  carriesApiKey,
  errorText,
  type Id,
  type Message,
  type NotificationMessage,
  PARSE_ERROR,
  type RequestMessage,
  type RpcError,
  readMessage,
  resultText,
} from '../mcp/message.ts';
import type { Methods } from '../mcp/methods.ts';
import { type CallPlan, readerOf } from '../mcp/plan.ts';
import { NO_SESSION, type Session, type Sessions } from '../mcp/sessions.ts';
import type { ResolveSubjects } from '../mcp/subjects.ts';
import { type CallOfMessage, callResultText, deniedError, oauthChallenge } from '../mcp/tool-result.ts';
import { OVERLOADED, type Problem } from '../problem.ts';
import { progressReporter } from './mcp-progress.ts';
import { accepted } from './mcp-reply.ts';

export interface SseRouteOptions {
  readonly methods: Methods;
  readonly run: Run;
  readonly streams: Streams;
  readonly sessions: Sessions;
  readonly resolveSubjects: ResolveSubjects;
  /** The path of PUBLIC_URL: empty or `/…`. */
  readonly publicPath: string;
  /** Where OAuth clients sign in; null: they are never challenged. */
  readonly signIn: () => SignIn | null;
  /** Null where clients can't sign in. */
  readonly checkBearer: CheckBearer | null;
  readonly log: Log;
}

const NO_SESSION_ID: Problem = {
  code: 'invalid_input',
  issues: [{ path: 'sessionId', message: 'Expected the session id that the stream began with' }],
};
const ID_IN_USE: RpcError = { code: CODES.invalidRequest, message: 'A request with this id is under way' };

/** GET /sse where several processes share the port: a POST may reach another process than the one with the stream. */
export const sseUnavailable: Handler = ({ requestId }) => problemResponse({ code: 'sse_unavailable' }, requestId);

export function sseRoutes(options: SseRouteOptions): { readonly open: Handler; readonly post: BodyHandler } {
  const { methods, run, streams, sessions, resolveSubjects, publicPath, signIn, checkBearer, log } = options;

  async function open(context: RequestContext): Promise<Response> {
    const { request, requestId } = context;
    if (request.method === 'HEAD') return new Response(null, { headers: EVENT_STREAM_HEADERS });
    const caller = callerOf(context);
    const address = context.clientAddress(); // read now: a client that leaves has none
    const ended = await checkBearer?.(caller);
    if (ended) return challenge(context, ended);
    const subjects = await resolveSubjects(caller);
    if (subjects.subjects.length === 0 && subjects.unknown !== null)
      return problemResponse(subjects.unknown, requestId);
    const session = sessions.open((onEnd) => streams.open(context, onEnd), subjects, address);
    if (session === undefined) return problemResponse(OVERLOADED, requestId);
    // A path without an origin: clients require the origin they connected to.
    session.stream.send('endpoint', `${publicPath}/messages?sessionId=${session.id}`);
    return session.stream.response;
  }

  async function post(context: RequestContext, body: Body): Promise<Response> {
    const { request, headers, requestId } = context;
    const sessionId = queryOf(request.url).get('sessionId');
    if (!sessionId) return problemResponse(NO_SESSION_ID, requestId);
    if (!sessions.has(sessionId)) return problemResponse(NO_SESSION, requestId);
    if (!body.ok) {
      if (body.error.code === 'invalid_json') return refusal(undefined, PARSE_ERROR);
      return problemResponse(body.error, requestId);
    }
    if (!context.acceptsCredentials && carriesApiKey(body.value))
      return problemResponse(refuseInClear(log, context), requestId);
    const message = readMessage(body.value);
    if (message.kind === 'invalid') return refusal(message.id, message.error);
    const plan = message.kind === 'request' ? methods.plan(message, legacyContext(headers)) : undefined;
    const caller = callerOf(context, plan?.kind === 'call' ? plan.metaApiKey : keyIn(message));
    const subjects = await resolveSubjects(caller);
    const found = sessions.find(sessionId, subjects, plan?.kind === 'call');
    if (!found.ok) return problemResponse(found.error, requestId);
    const session = found.value;
    const ended = await checkBearer?.(caller);
    if (ended) return challenge(context, ended);
    if (message.kind === 'notification') takeNotification(session, message);
    if (message.kind !== 'request' || plan === undefined) return accepted();
    session.used = true;
    if (message.method === 'initialize') session.reader = readerOf(message.params.capabilities);
    if (plan.kind === 'call') return takeCall(context, session, message, plan);
    const { id } = message;
    const text = plan.kind === 'result' ? resultText(id, plan.members) : errorText(id, plan.error);
    send(session, text, () => errorText(id, deniedError(OVERLOADED)));
    return accepted();
  }

  const challenge = (context: RequestContext, problem: Problem): Response =>
    problemResponse(problem, context.requestId, challengeFor(problem, signIn()));

  function takeCall(
    context: RequestContext,
    session: Session,
    { id }: RequestMessage,
    plan: CallPlan,
  ): Awaitable<Response> {
    const { requestId } = context;
    const { operation } = plan;
    if (session.calls.has(id)) return refusal(id, ID_IN_USE);
    const taken = sessions.beginCall(session, id);
    if (taken === null) return problemResponse(OVERLOADED, requestId);
    const { canceller, end } = taken;
    const progress =
      plan.progressToken === undefined
        ? undefined
        : progressReporter(plan.progressToken, (data) => session.stream.offer('message', data));
    const { reader } = session;
    const call = callOf(context, plan.metaApiKey, { ...plan, reader, ...(progress && { progress: progress.report }) });

    const response = chain(run(operation, plan.input, call, canceller), (result) => {
      progress?.stop();
      const challenge = oauthChallenge(operation, result, signIn());
      // A cancelled request gets no response (basic/utilities/cancellation).
      if (challenge === null && !canceller.signal.aborted)
        sendResult(session, { id, era: 'legacy', operation, call }, result);
      end();
      return challenge === null
        ? accepted()
        : problemResponse(challenge.problem, requestId, challenge.header, call.rateLimit);
    });
    // Only a call that may be challenged delays its POST: the challenge is the response to the POST.
    const waits = mayBeChallenged(operation, call.credentials, signIn());
    return waits ? holdingOpen(context, operation.timeoutMs, response) : accepted();
  }

  function sendResult(session: Session, made: CallOfMessage, result: ToolResult): void {
    const { call } = made;
    const textOf = (result: ToolResult) => callResultText(made, result);
    const refusal = () => textOf(err(OVERLOADED));
    try {
      send(session, textOf(result), refusal);
    } catch (bug) {
      // Its POST has been answered, so nothing else would catch this.
      log.error('internal error', { requestId: call.requestId, error: bug });
      send(session, textOf(err({ code: 'internal' })), refusal);
    }
  }

  /** Sends a response, or why there is none. A client that leaves even that unread is cut off. */
  function send({ stream }: Session, data: string, refusal: () => string): void {
    if (!stream.send('message', data) && !stream.send('message', refusal())) stream.cut();
  }

  return { open, post };
}

/** Where clients get a key, calls with a credential are never challenged: checkBearer has done it. */
const mayBeChallenged = ({ credential }: Operation, credentials: Credentials, signIn: SignIn | null): boolean =>
  signIn !== null &&
  (signIn.handsOutKeys ? credential === 'api_key' && !carriesCredential(credentials) : credential === 'user_jwt');

/** A key in `_meta` counts with any message: clients may send it with all. */
const keyIn = (message: Message): string | null => ('params' in message ? metaApiKey(message.params._meta) : null);

function takeNotification(session: Session, { method, params }: NotificationMessage): void {
  if (method === 'notifications/cancelled') session.calls.get(params.requestId as Id)?.abort();
}

const refusal = (id: Id | undefined, error: RpcError) =>
  new Response(errorText(id, error), { status: 400, headers: UNCACHED_JSON_HEADERS });
