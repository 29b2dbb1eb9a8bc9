// POST /tools/<name>: calls a tool over plain HTTP, from the request's body to the response.

import { withJson } from '../http/body.ts';
import { challengeFor } from '../http/challenge.ts';
import type { Perishable, RequestContext } from '../http/context.ts';
import { holdingOpen } from '../http/context.ts';
import { metaApiKey } from '../http/credentials.ts';
import { createResponseHeaders, UNCACHED_JSON_HEADERS } from '../http/headers.ts';
import type { Text } from '../http/parts.ts';
import { problemResponse } from '../http/problem-response.ts';
import type { Route } from '../http/router.ts';
import type { SendText } from '../http/send-text.ts';
import { type Awaitable, chain, err, ok, type Result } from '../lib/result.ts';
import { isObject } from '../lib/text.ts';
import { metaTrace } from '../lib/trace.ts';
import type { Problem } from '../problem.ts';
import { type Call, callOf, type SplitInput, withoutMeta } from '../tools/core/call.ts';
import type { Confirm } from '../tools/core/confirm.ts';
import type { Output } from '../tools/core/operation.ts';
import type { RunTool } from '../tools/core/run.ts';
import type { Tool } from '../tools/core/tool.ts';

export interface ToolRouteOptions {
  readonly runTool: RunTool;
  readonly confirm: Confirm;
  readonly sendText: SendText;
  readonly metadataUrl: () => string | null;
}

/** The routes of the tools, below `prefix`, and one for every other path there. */
export function toolRoutes(prefix: string, tools: readonly Tool[], options: ToolRouteOptions): Route[] {
  return [
    ...tools.map((tool) => ({ path: `${prefix}${tool.name}`, ...toolRoute(tool, options) })),
    { path: `${prefix}*`, missing: { code: 'tool_not_found' } },
  ];
}

function toolRoute(tool: Tool, options: ToolRouteOptions): Pick<Route, 'post' | 'refuse'> {
  const { runTool, confirm, sendText, metadataUrl } = options;
  const responseHeaders = createResponseHeaders(UNCACHED_JSON_HEADERS);

  /** Every response of a rate-limited tool states its limit, even a refusal before any guard. */
  function refuse(context: RequestContext, problem: Problem, limit = tool.fullQuota ?? undefined): Response {
    return problemResponse(problem, context.requestId, challengeFor(problem, metadataUrl()), limit);
  }

  function handleBody(body: Result<unknown, Problem>, context: RequestContext): Awaitable<Response> {
    if (!body.ok) return refuse(context, body.error);
    const input = inputOf(body.value);
    if (!input.ok) return refuse(context, input.error);
    const { fields, meta } = input.value;
    const key = metaApiKey(meta);
    if (key !== null && !context.acceptsCredentials) return refuse(context, { code: 'https_required' });
    const call = callOf(context, key, meta === undefined ? undefined : { trace: metaTrace(meta) });
    call.reader = 'program';
    const answered = holdingOpen(context, tool.timeoutMs, runTool(tool, fields, call));
    return chain(answered, respond, { context, call, renew });
  }

  function respond(answered: Result<Output, Problem>, made: MadeCall): Response {
    const { context, call } = made;
    if (!answered.ok) return refuse(context, answered.error, call.rateLimit);
    context.perishable = made;
    return (
      sendText(textOf(answered.value), { headers: responseHeaders(call.rateLimit) }, call.takeHeld()) ??
      refuse(context, { code: 'overloaded' }, call.rateLimit)
    );
  }

  function renew(this: MadeCall) {
    const { context, call } = this;
    return confirm(call)?.then((problem) => problem && refuse(context, problem, call.rateLimit));
  }

  return { post: (context) => withJson(context.request, handleBody, context), refuse };
}

interface MadeCall extends Perishable {
  readonly context: RequestContext;
  readonly call: Call;
}

function textOf(answer: Output): Text {
  if ('json' in answer) return answer.json;
  if ('parts' in answer) return answer.parts;
  if ('contentJson' in answer) return answer.contentJson;
  throw new Error('over REST nobody can be asked');
}

function inputOf(body: unknown): Result<SplitInput, Problem> {
  if (body === undefined) return ok({ fields: {}, meta: undefined });
  return isObject(body) ? ok(withoutMeta(body)) : err({ code: 'invalid_json', notObject: true });
}
