// POST /mcp: Streamable HTTP of every revision, without sessions, so that any process can handle any request.

import type { CheckBearer } from '../calls/bearer.ts';
import { callerOf, callOf } from '../calls/call.ts';
import type { ToolResult } from '../calls/operation.ts';
import type { Recheck } from '../calls/recheck.ts';
import type { Run } from '../calls/run.ts';
import type { Body } from '../http/body.ts';
import { challengeFor, type SignIn } from '../http/challenge.ts';
import { refuseInClear } from '../http/checks.ts';
import type { RequestContext } from '../http/context.ts';
import { holdingOpen } from '../http/context.ts';
import { carriesCredential } from '../http/credentials.ts';
import { problemResponse } from '../http/problem-response.ts';
import type { BodyHandler } from '../http/router.ts';
import type { Streams } from '../http/stream.ts';
import { type Awaitable, chain, err } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import { classify, type IncomingRequest } from '../mcp/era.ts';
import { carriesApiKey, errorText, PARSE_ERROR, resultText } from '../mcp/message.ts';
import type { Methods } from '../mcp/methods.ts';
import type { CallPlan } from '../mcp/plan.ts';
import { type CallOfMessage, callResultText, oauthChallenge } from '../mcp/tool-result.ts';
import { OVERLOADED, type Problem } from '../problem.ts';
import { createRunBatch } from './mcp-batch.ts';
import { type ProgressResponse, progressResponse } from './mcp-progress.ts';
import { accepted, createReply, takesEvents } from './mcp-reply.ts';

export interface McpRouteOptions {
  readonly methods: Methods;
  readonly run: Run;
  readonly recheck: Recheck;
  readonly streams: Streams;
  /** Where OAuth clients sign in; null: they are never challenged. */
  readonly signIn: () => SignIn | null;
  /** Null where clients can't sign in. */
  readonly checkBearer: CheckBearer | null;
  /** Challenge every request without a credential, so that clients sign in when they connect. */
  readonly eager: boolean;
  readonly log: Log;
}

export function mcpRoute(options: McpRouteOptions): BodyHandler {
  const { methods, run, streams, signIn, checkBearer, eager, log } = options;
  const reply = createReply(streams);
  const runBatch = createRunBatch(options);

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
    // Closing the response's stream cancels the call only in the modern era.
    const result = run(operation, plan.input, call, era === 'modern' ? (progress ?? context.request) : undefined);
    const response = chain(holdingOpen(context, operation.timeoutMs, result), respond, {
      context,
      id: request.id,
      era,
      operation,
      call,
      progress,
    });
    return progress === null ? response : Promise.race([progress.opened, response]);
  }

  function respond(result: ToolResult, made: MadeCall): Response {
    const { context, operation, call } = made;
    const challenge = oauthChallenge(operation, result, signIn());
    if (challenge !== null)
      return problemResponse(challenge.problem, context.requestId, challenge.header, call.rateLimit);
    const text = callResultText(made, result);
    const streamed = made.progress?.finish(text, () => overloadedText(made));
    if (streamed !== undefined) return streamed;
    const { rateLimit } = call;
    return reply.attempt(context, text, { rateLimit }) ?? reply(context, overloadedText(made), { rateLimit });
  }

  const overloadedText = (made: MadeCall): string => callResultText(made, err(OVERLOADED));

  function handleBody(context: RequestContext, body: Body): Awaitable<Response> {
    if (!body.ok) {
      if (body.error.code === 'invalid_json') return reply(context, errorText(undefined, PARSE_ERROR), { status: 400 });
      return problemResponse(body.error, context.requestId);
    }
    if (!context.acceptsCredentials && carriesApiKey(body.value)) {
      return problemResponse(refuseInClear(log, context), context.requestId);
    }
    if (checkBearer === null) return handleValue(context, body.value);
    const caller = callerOf(context);
    if (eager && !carriesCredential(caller.credentials) && !carriesApiKey(body.value)) return missing(context);
    return chain(checkBearer(caller), (problem) =>
      problem === null ? handleValue(context, body.value) : challenge(context, problem),
    );
  }

  const challenge = (context: RequestContext, problem: Problem): Response =>
    problemResponse(problem, context.requestId, challengeFor(problem, signIn()));

  const missing = (context: RequestContext) =>
    challenge(context, { code: signIn()?.handsOutKeys ? 'missing_api_key' : 'missing_token' });

  function handleValue(context: RequestContext, value: unknown): Awaitable<Response> {
    const classified = classify(value, context.headers);
    switch (classified.kind) {
      case 'request':
        return handleRequest(context, classified);
      case 'batch':
        return chain(runBatch(context, classified.messages), (text) =>
          text === null ? accepted() : reply(context, text),
        );
      case 'accepted':
        return accepted();
      case 'refused':
        return reply(context, errorText(classified.id, classified.error), { status: 400 });
    }
  }

  return handleBody;
}

interface MadeCall extends CallOfMessage {
  readonly context: RequestContext;
  readonly progress: ProgressResponse | null;
}
