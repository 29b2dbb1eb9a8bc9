// GET /sse and POST /messages: the HTTP+SSE transport of 2024-11-05. The stream carries the answers to what is posted;
// every POST is authenticated by its own headers, and the session's id only selects the stream.

import type { Principals } from '../guards/principal.ts';
import { withJson } from '../http/body.ts';
import { EVENT_STREAM_HEADERS } from '../http/event-stream.ts';
import type { EventStreams } from '../http/event-streams.ts';
import type { Exchange } from '../http/exchange.ts';
import { UNCACHED_JSON_HEADERS } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import { type Handler, queryOf } from '../http/router.ts';
import { legacyContext } from '../mcp/era.ts';
import {
  CODES,
  carriesApiKey,
  errorText,
  type Id,
  type NotificationMessage,
  PARSE_ERROR,
  type RequestMessage,
  type RpcError,
  readMessage,
  resultText,
} from '../mcp/message.ts';
import type { Methods, ToolStep } from '../mcp/methods.ts';
import { type Awaitable, chain, err, type Problem, type Result } from '../problem.ts';
import type { Call } from '../tools/tool.ts';
import { sleep } from '../waiting.ts';
import { type CallMaker, holdingOpen, type NeedsHttps } from './call.ts';
import type { Confirm } from './confirm.ts';
import { progressReporter } from './progress.ts';
import type { Session, Sessions } from './sessions.ts';
import { accepted, oauthChallenge, type RunTool, type ToolResult, toolResultText } from './tool-call.ts';

export interface SseRouteOptions {
  readonly methods: Methods;
  readonly newCall: CallMaker;
  readonly needsHttps: NeedsHttps;
  readonly runTool: RunTool;
  readonly confirm: Confirm;
  readonly streams: EventStreams;
  readonly sessions: Sessions;
  readonly principals: Principals;
  /** The path of PUBLIC_URL: empty or `/…`. */
  readonly publicPath: string;
  readonly metadataUrl: () => string | null;
}

/** Calls under way in one session; clients wait for answers, so they have few. */
const SESSION_CALLS_MAX = 256;

/** An answer waits this long for room in its stream: a burst of them may fill it before a quick client reads any. */
const NO_ROOM_MS_MAX = 1000;
const LOOK_EVERY_MS = 10;

const NO_SESSION_ID: Problem = {
  code: 'invalid_input',
  issues: [{ path: 'sessionId', message: 'Expected the session id that the stream began with' }],
};
const ID_IN_USE: RpcError = { code: CODES.invalidRequest, message: 'A request with this id is under way' };

interface Posted {
  readonly exchange: Exchange;
  readonly sessionId: string;
}

export function sseRoutes(options: SseRouteOptions): { readonly open: Handler; readonly post: Handler } {
  const { methods, newCall, needsHttps, runTool, confirm, streams, sessions, principals, publicPath, metadataUrl } =
    options;

  async function open(exchange: Exchange): Promise<Response> {
    const { request, requestId } = exchange;
    if (request.method === 'HEAD') return new Response(null, { headers: EVENT_STREAM_HEADERS });
    const { credentials, source } = newCall(exchange, null);
    const owners = await principals(credentials, source);
    const session = sessions.open((onEnd) => streams.open(exchange, onEnd), owners);
    if (session === undefined) return problemResponse({ code: 'overloaded' }, requestId);
    // A path without an origin: clients insist on the origin they connected to.
    session.stream.send({ event: 'endpoint', data: `${publicPath}/messages?sessionId=${session.id}` });
    return session.stream.response;
  }

  function post(exchange: Exchange): Awaitable<Response> {
    const { request, requestId } = exchange;
    const sessionId = queryOf(request.url).get('sessionId');
    if (!sessionId) return problemResponse(NO_SESSION_ID, requestId);
    if (!sessions.has(sessionId)) return problemResponse({ code: 'not_found' }, requestId);
    return withJson(request, postBody, { exchange, sessionId });
  }

  async function postBody(body: Result<unknown, Problem>, { exchange, sessionId }: Posted): Promise<Response> {
    const { request, requestId } = exchange;
    if (!body.ok) {
      if (body.error.code === 'invalid_json') return refusal(undefined, PARSE_ERROR);
      return problemResponse(body.error, requestId);
    }
    if (needsHttps(exchange) && carriesApiKey(body.value))
      return problemResponse({ code: 'https_required' }, requestId);
    const message = readMessage(body.value);
    if (message.kind === 'invalid') return refusal(message.id, message.error);
    const step = message.kind === 'request' ? methods.step(message, legacyContext(request.headers)) : undefined;
    const call = newCall(exchange, step?.kind === 'tool' ? step.metaApiKey : null);
    const session = sessions.find(sessionId, await principals(call.credentials, call.source));
    if (session === undefined) return problemResponse({ code: 'not_found' }, requestId);
    if (message.kind === 'notification') takeNotification(session, message);
    if (message.kind !== 'request' || step === undefined) return accepted();
    if (step.kind === 'tool') return takeCall(exchange, session, message, step, call);
    if (message.method === 'initialize') session.initialized = true;
    await send(
      session,
      step.kind === 'result' ? resultText(message.id, step.members) : errorText(message.id, step.error),
    );
    return accepted();
  }

  function takeCall(
    exchange: Exchange,
    session: Session,
    { id }: RequestMessage,
    step: ToolStep,
    call: Call,
  ): Awaitable<Response> {
    const { requestId } = exchange;
    if (session.calls.has(id)) return refusal(id, ID_IN_USE);
    if (session.calls.size >= SESSION_CALLS_MAX) return problemResponse({ code: 'overloaded' }, requestId);
    const cancel = new AbortController();
    session.calls.set(id, cancel);
    const progress =
      step.progressToken === undefined
        ? undefined
        : progressReporter(step.progressToken, (data) => session.stream.send({ event: 'message', data }));
    if (progress !== undefined) call.progress = progress.report;

    const answered = chain(runTool(step.tool, step.input, call, cancel), async (result) => {
      progress?.stop();
      const challenge = oauthChallenge(step, result, metadataUrl);
      // A cancelled request gets no answer (basic/utilities/cancellation).
      if (challenge === null && !cancel.signal.aborted) {
        const textOf = (sent: ToolResult) => toolResultText(methods, { id, era: 'legacy', requestId }, sent);
        const renew = () => confirm(call)?.then((problem) => problem && textOf(err(problem)));
        await send(session, textOf(result), result.ok ? renew : undefined);
      }
      call.release();
      sessions.callEnded(session, id);
      return challenge === null ? accepted() : problemResponse(challenge.problem, requestId, challenge.header);
    });
    // Only a call that may be challenged keeps its POST waiting: the challenge is the answer to the POST.
    const waits = step.tool.credential === 'user_jwt' && metadataUrl() !== null;
    return waits ? holdingOpen(exchange, step.tool.timeoutMs, answered) : accepted();
  }

  /** A client that does not read is cut off, not buffered for. After each wait `renew` may change what is sent. */
  async function send(
    { id, stream }: Session,
    text: string,
    renew?: () => Promise<string | undefined> | undefined,
  ): Promise<void> {
    let data = text;
    for (let waitedMs = 0; sessions.has(id) && !stream.send({ event: 'message', data }); waitedMs += LOOK_EVERY_MS) {
      if (waitedMs >= NO_ROOM_MS_MAX) return stream.cut();
      await sleep(LOOK_EVERY_MS);
      data = (await renew?.()) ?? data;
    }
  }

  return { open, post };
}

function takeNotification(session: Session, { method, params }: NotificationMessage): void {
  if (method === 'notifications/cancelled') session.calls.get(params.requestId as Id)?.abort();
}

const refusal = (id: Id | undefined, error: RpcError) =>
  new Response(errorText(id, error), { status: 400, headers: UNCACHED_JSON_HEADERS });
