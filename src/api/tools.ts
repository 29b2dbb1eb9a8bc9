// POST /tools/<name>: calls a tool over plain HTTP.

import { type CallResponse, callOf, metaTrace, withoutMeta } from '../calls/call.ts';
import { jsonIn, type Output, type ToolResult } from '../calls/operation.ts';
import type { Run } from '../calls/run.ts';
import type { Tool } from '../calls/tool.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import { type Awaitable, isPromise } from '../ground/result.ts';
import { isObject } from '../ground/text.ts';
import type { Log } from '../watch/log.ts';
import type { Body } from '../web/body.ts';
import { apiKeyInMeta, holdingOpen, type RequestContext } from '../web/context.ts';
import { createResponseHeaders, UNCACHED_JSON_HEADERS } from '../web/headers.ts';
import { challengeFor, problemResponse, type SignIn } from '../web/problem-response.ts';
import { type Handlers, type Route, refuseInClear } from '../web/router.ts';
import type { Streams } from '../web/stream.ts';

interface ToolRouteOptions {
  readonly run: Run;
  readonly streams: Streams;
  /** Where users sign in; null: clients are never sent there. */
  readonly signIn: SignIn | null;
  readonly log: Log;
}

/** Returns a route for each tool, and one for every other path below `prefix`. */
export function toolRoutes(prefix: string, tools: readonly Tool[], options: ToolRouteOptions): Route[] {
  return [
    ...tools.map((tool) => ({ path: `${prefix}${tool.name}`, ...toolRoute(tool, options) })),
    { path: `${prefix}*`, missing: { code: 'tool_not_found' } },
  ];
}

function toolRoute(tool: Tool, { run, streams, signIn, log }: ToolRouteOptions): Handlers {
  const responseHeaders = createResponseHeaders(UNCACHED_JSON_HEADERS);

  /** Refuses a call. Every response of a rate-limited tool states its limit, even if no guard has run. */
  function refuse(context: RequestContext, problem: Problem, limits = tool.initialLimits): Response {
    context.tool = tool.name;
    return problemResponse(
      problem,
      context.requestId,
      challengeFor(problem, tool.credential === 'user_jwt' ? signIn : null, context.publicUrl),
      limits,
    );
  }

  function post(context: RequestContext, body: Body): Awaitable<Response> {
    if (!body.ok) return refuse(context, body.error);
    const { value: input = NO_INPUT } = body;
    if (!isObject(input)) return refuse(context, { code: 'invalid_json', notObject: true });
    const { _meta: meta } = input;
    const key = apiKeyInMeta(meta);
    if (key !== null && !context.acceptsCredentials) return refuse(context, refuseInClear(log, context));
    const call = callOf(context, key, { operation: tool, audience: 'program', trace: metaTrace(meta) });
    const result = holdingOpen(context, tool.timeoutMs, run(tool, withoutMeta(input), call));
    return isPromise(result)
      ? result.then((later) => respond(context, call.response, later))
      : respond(context, call.response, result);
  }

  function respond(context: RequestContext, { limits }: CallResponse, result: ToolResult): Response {
    if (!result.ok) return refuse(context, result.error, limits);
    const sent = streams.text(context, textOf(result.value), { headers: responseHeaders(limits) });
    return sent ?? refuse(context, OVERLOADED, limits);
  }

  return { post, refuse, changesNoKeys: tool.credential === 'api_key' };
}

const NO_INPUT = {};

function textOf(output: Output): string {
  if ('inputRequired' in output) throw new Error('over REST nobody can be asked');
  return jsonIn(output);
}
