// POST /mcp: Streamable HTTP of every revision, without sessions, so that any replica can handle any request.

import { type Call, callerOf, callOf } from '../calls/call.ts';
import type { Leave } from '../calls/leave.ts';
import type { RunTool, ToolResult } from '../calls/run.ts';
import type { CheckBearer } from '../guards/bearer.ts';
import { accepts } from '../http/accept.ts';
import type { Body } from '../http/body.ts';
import { challengeFor, type SignIn } from '../http/challenge.ts';
import { refuseInClear } from '../http/checks.ts';
import type { RequestContext } from '../http/context.ts';
import { holdingOpen } from '../http/context.ts';
import { carriesCredential, readCredentials } from '../http/credentials.ts';
import { createResponseHeaders, UNCACHED_JSON_HEADERS } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import type { BodyHandler } from '../http/router.ts';
import { EVENT_STREAM_HEADERS, eventText } from '../http/sending/event-stream.ts';
import type { EventStreams } from '../http/sending/keep-alive.ts';
import type { SendText } from '../http/sending/send-text.ts';
import type { RateLimitState } from '../lib/rate-limit.ts';
import { type Awaitable, chain, err } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import { classify, type IncomingRequest, legacyContext } from '../mcp/era.ts';
import {
  carriesApiKey,
  errorText,
  type Id,
  type Message,
  PARSE_ERROR,
  type RequestMessage,
  resultText,
} from '../mcp/message.ts';
import type { Methods } from '../mcp/methods.ts';
import type { CallPlan } from '../mcp/plan.ts';
import { type ProgressResponse, progressResponse } from '../mcp/progress.ts';
import { accepted, type CallInfo, callResultText, deniedError, oauthChallenge } from '../mcp/tool-result.ts';
import { OVERLOADED, type Problem } from '../problem.ts';

export interface McpRouteOptions {
  readonly methods: Methods;
  readonly runTool: RunTool;
  readonly leave: Leave;
  readonly sendText: SendText;
  readonly streams: EventStreams;
  /** How OAuth clients sign in; null: they are never challenged. */
  readonly signIn: () => SignIn | null;
  /** Null where clients can't sign in. */
  readonly checkBearer: CheckBearer | null;
  /** Challenge every request without a credential, whatever it asks for, so that clients sign in when they connect. */
  readonly eager: boolean;
  readonly log: Log;
}

/** Once the responses of a batch hold this much, its other requests are refused and do not run. */
const BATCH_CHARS_MAX = 1024 * 1024;

export function mcpRoute(options: McpRouteOptions): BodyHandler {
  const { methods, runTool, leave, sendText, streams, signIn, checkBearer, eager, log } = options;
  const responseHeaders = createResponseHeaders(UNCACHED_JSON_HEADERS);

  /**
   * One JSON-RPC response, as an event stream only for a client that takes nothing else. Null when there is no room for
   * it.
   */
  function tryReply(
    context: RequestContext,
    text: string,
    { status = 200, rateLimit }: ReplyOptions = {},
  ): Response | null {
    if (status === 200 && !takesJson(context)) {
      return sendText(context, eventText({ event: 'message', data: text }), { headers: EVENT_STREAM_HEADERS });
    }
    return sendText(context, text, { status, headers: responseHeaders(rateLimit) });
  }

  const reply = (context: RequestContext, text: string, options?: ReplyOptions): Response =>
    tryReply(context, text, options) ?? problemResponse(OVERLOADED, context.requestId);

  function handleRequest(context: RequestContext, incoming: IncomingRequest): Awaitable<Response> {
    const { id } = incoming.request;
    const plan = methods.plan(incoming.request, incoming);
    switch (plan.kind) {
      case 'result':
        return reply(context, resultText(id, plan.members));
      case 'error':
        return reply(context, errorText(id, plan.error), { status: plan.status });
      case 'call':
        return handleCall(context, incoming, plan);
    }
  }

  function handleCall(context: RequestContext, { request, era }: IncomingRequest, plan: CallPlan): Awaitable<Response> {
    const { operation, progressToken: token } = plan;
    const progress = token === undefined || !takesEvents(context) ? null : progressResponse(streams, context, token);
    const call = callOf(context, plan.metaApiKey, progress === null ? plan : { ...plan, progress: progress.report });
    // Closing the response's stream cancels the call, but only in the modern era.
    const result = runTool(operation, plan.input, call, era === 'modern' ? (progress ?? context.request) : undefined);
    const { requestId } = context;
    const response = chain(holdingOpen(context, operation.timeoutMs, result), respond, {
      context,
      id: request.id,
      era,
      requestId,
      operation,
      plan,
      call,
      progress,
    });
    return progress === null ? response : Promise.race([progress.opened, response]);
  }

  function respond(result: ToolResult, made: MadeCall): Response {
    const { context, plan, call } = made;
    const challenge = oauthChallenge(plan, result, signIn());
    if (challenge !== null) return problemResponse(challenge.problem, context.requestId, challenge.header);
    const text = callResultText(methods, made, result);
    const streamed = made.progress?.finish(text, () => overloadedText(made));
    if (streamed !== undefined) return streamed;
    const { rateLimit } = call;
    return tryReply(context, text, { rateLimit }) ?? reply(context, overloadedText(made), { rateLimit });
  }

  const overloadedText = (callInfo: CallInfo): string => callResultText(methods, callInfo, err(OVERLOADED));

  async function batchResponse(
    context: RequestContext,
    message: RequestMessage,
    full: boolean,
  ): Promise<BatchResponse> {
    const { requestId, request } = context;
    const { id } = message;
    const plan = methods.plan(message, legacyContext(request.headers));
    switch (plan.kind) {
      case 'result':
        return { id, text: full ? errorText(id, deniedError(OVERLOADED)) : resultText(id, plan.members) };
      case 'error':
        return { id, text: errorText(id, plan.error) };
      case 'call': {
        const { operation } = plan;
        const call = callOf(context, plan.metaApiKey, plan);
        const result = full ? err(OVERLOADED) : await runTool.oneOfMany(operation, plan.input, call);
        const callInfo: CallInfo = { id, era: 'legacy', requestId, operation };
        const text = callResultText(methods, callInfo, result);
        return result.ok ? { id, text, success: { call, callInfo } } : { id, text };
      }
    }
  }

  /** One after the other: a hundred calls at once, each with a large response, could take all the memory there is. */
  async function batchResponses(context: RequestContext, messages: readonly Message[]): Promise<BatchResponse[]> {
    const responses: BatchResponse[] = [];
    let chars = 0;
    for (const message of messages) {
      if (message.kind === 'invalid') responses.push({ id: message.id, text: errorText(message.id, message.error) });
      if (message.kind !== 'request') continue;
      const response = await batchResponse(context, message, chars >= BATCH_CHARS_MAX);
      chars += response.text.length;
      responses.push(response);
    }
    return responses;
  }

  async function handleBatch(context: RequestContext, messages: readonly Message[]): Promise<Response> {
    const responses = await holdingOpen(context, Number.POSITIVE_INFINITY, batchResponses(context, messages));
    if (responses.length === 0) return accepted();
    const refused = await leave.together(responses.flatMap(({ success }) => success?.call ?? []));
    const texts = responses.map(({ text, success }) => {
      const problem = success && refused.get(success.call);
      return success && problem ? callResultText(methods, success.callInfo, err(problem)) : text;
    });
    return replyBatch(context, texts);
  }

  function replyBatch(context: RequestContext, texts: readonly string[]): Response {
    // Not by join, which copies: what finds no room is never put together.
    const text = texts.reduce((all, text, index) => `${all}${index === 0 ? '' : ','}${text}`, '[');
    return reply(context, `${text}]`);
  }

  function handleBody(context: RequestContext, body: Body): Awaitable<Response> {
    if (!body.ok) {
      if (body.error.code === 'invalid_json') return reply(context, errorText(undefined, PARSE_ERROR), { status: 400 });
      return problemResponse(body.error, context.requestId);
    }
    if (!context.acceptsCredentials && carriesApiKey(body.value)) {
      return problemResponse(refuseInClear(log, context), context.requestId);
    }
    if (checkBearer === null) return handleValue(context, body.value);
    const credentials = readCredentials(context.headers, null);
    if (eager && !carriesCredential(credentials) && !carriesApiKey(body.value)) return challenge(context, MISSING);
    const checked = checkBearer(credentials, callerOf(context));
    return chain(checked, (problem) =>
      problem === null ? handleValue(context, body.value) : challenge(context, problem),
    );
  }

  const challenge = (context: RequestContext, problem: Problem): Response =>
    problemResponse(problem, context.requestId, challengeFor(problem, signIn()));

  function handleValue(context: RequestContext, value: unknown): Awaitable<Response> {
    const classified = classify(value, context.headers);
    switch (classified.kind) {
      case 'request':
        return handleRequest(context, classified);
      case 'batch':
        return handleBatch(context, classified.messages);
      case 'accepted':
        return accepted();
      case 'refused':
        return reply(context, errorText(classified.id, classified.error), { status: 400 });
    }
  }

  return handleBody;
}

const MISSING: Problem = { code: 'missing_token' };

/** What it takes to respond to a call once its result is there. */
interface MadeCall extends CallInfo {
  readonly context: RequestContext;
  readonly plan: CallPlan;
  readonly call: Call;
  readonly progress: ProgressResponse | null;
}

interface BatchResponse {
  readonly id: Id | undefined;
  readonly text: string;
  /** Only of a call that succeeded. */
  readonly success?: { readonly call: Call; readonly callInfo: CallInfo };
}

interface ReplyOptions {
  readonly status?: 200 | 400 | 404;
  readonly rateLimit?: RateLimitState | undefined;
}

const EVENTS = 'text/event-stream';
/**
 * What the specification tells clients to send (2025-03-26 on, Streamable HTTP), and nearly all do. Needs no parsing.
 */
const JSON_AND_EVENTS = 'application/json, text/event-stream';

/** A client that takes neither gets JSON: it may be mistaken about what it can read. */
function takesJson({ headers }: RequestContext): boolean {
  const accept = headers.get('accept');
  if (accept === null || accept === JSON_AND_EVENTS) return true;
  return accepts(accept, 'application/json') || !accepts(accept, EVENTS);
}

/** Only a client that names event streams: one that takes anything may not know them. */
function takesEvents({ headers }: RequestContext): boolean {
  const accept = headers.get('accept')?.toLowerCase() ?? '';
  return accept.includes(EVENTS) && accepts(accept, EVENTS);
}
