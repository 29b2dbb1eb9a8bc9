// POST /tools/<name>: calls a tool over plain HTTP, from the request's body to the answer.

import { withJson } from '../http/body.ts';
import { challengeFor } from '../http/challenge.ts';
import type { Exchange, Perishable } from '../http/context.ts';
import { holdingOpen, type NeedsHttps } from '../http/context.ts';
import { metaApiKey } from '../http/credentials.ts';
import { createAnswerHeaders } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import type { Handler, Refuse } from '../http/router.ts';
import type { SendText } from '../http/send-text.ts';
import { remembering } from '../lib/memoize.ts';
import { type Awaitable, chain, err, ok, type Result } from '../lib/result.ts';
import { isObject } from '../lib/text.ts';
import type { Problem } from '../problem.ts';
import type { Call, CallMaker } from '../tools/core/call.ts';
import { type SplitInput, withoutMeta } from '../tools/core/call.ts';
import type { Confirm } from '../tools/core/confirm.ts';
import type { RunTool } from '../tools/core/run.ts';
import type { Tool, ToolAnswer } from '../tools/core/tool.ts';

export interface ToolsRouteOptions {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prefix: string;
  readonly newCall: CallMaker;
  readonly needsHttps: NeedsHttps;
  readonly runTool: RunTool;
  readonly confirm: Confirm;
  readonly sendText: SendText;
  readonly metadataUrl: () => string | null;
}

export interface ToolsRoute {
  readonly post: Handler;
  readonly refuse: Refuse;
  readonly absent: (exchange: Exchange) => Problem | null;
}

export function toolsRoute(options: ToolsRouteOptions): ToolsRoute {
  const { tools, prefix, newCall, needsHttps, runTool, confirm, sendText, metadataUrl } = options;
  const answerHeaders = createAnswerHeaders();
  const toolAt = remembering((path) => tools.get(path.slice(prefix.length)) ?? null);

  /** Every answer of a rate-limited tool states its limit, even a refusal before any guard. */
  function refuse(exchange: Exchange, problem: Problem, limit = toolAt(exchange.path)?.fullQuota): Response {
    return problemResponse(problem, exchange.requestId, challengeFor(problem, metadataUrl()), limit);
  }

  function answer(exchange: Exchange, tool: Tool, body: unknown): Awaitable<Response> {
    const input = inputOf(body);
    if (!input.ok) return refuse(exchange, input.error);
    const key = metaApiKey(input.value.meta);
    if (key !== null && needsHttps(exchange)) return refuse(exchange, { code: 'https_required' });
    const call = newCall(exchange, key);
    const answered = holdingOpen(exchange, tool.timeoutMs, runTool(tool, input.value.fields, call));
    return chain(answered, respond, { exchange, call, renew });
  }

  function respond(answered: Result<ToolAnswer, Problem>, made: MadeCall): Response {
    const { exchange, call } = made;
    if (!answered.ok) return refuse(exchange, answered.error, call.rateLimit);
    exchange.perishable = made;
    return (
      sendText(textOf(answered.value), { headers: answerHeaders(call.rateLimit) }, call.takeHeld()) ??
      refuse(exchange, { code: 'overloaded' }, call.rateLimit)
    );
  }

  function renew(this: MadeCall) {
    const { exchange, call } = this;
    return confirm(call)?.then((problem) => problem && refuse(exchange, problem, call.rateLimit));
  }

  function answerBody(body: Result<unknown, Problem>, exchange: Exchange): Awaitable<Response> {
    if (!body.ok) return refuse(exchange, body.error);
    const tool = toolAt(exchange.path);
    return tool === null ? refuse(exchange, NO_SUCH_TOOL) : answer(exchange, tool, body.value);
  }

  const post: Handler = (exchange) => withJson(exchange.request, answerBody, exchange);

  const absent = ({ path }: Exchange) => (toolAt(path) === null ? NO_SUCH_TOOL : null);

  return { post, refuse, absent };
}

interface MadeCall extends Perishable {
  readonly exchange: Exchange;
  readonly call: Call;
}

const NO_SUCH_TOOL: Problem = { code: 'tool_not_found' };

const textOf = (answer: ToolAnswer): string => ('json' in answer ? answer.json : JSON.stringify(answer.content));

function inputOf(body: unknown): Result<SplitInput, Problem> {
  if (body === undefined) return ok({ fields: {}, meta: undefined });
  return isObject(body) ? ok(withoutMeta(body)) : err({ code: 'invalid_json' });
}
