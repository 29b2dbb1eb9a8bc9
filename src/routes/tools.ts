// POST /tools/<name>: calls a tool over plain HTTP, from the request's body to the answer.

import { withJson } from '../http/body.ts';
import { metaApiKey } from '../http/credentials.ts';
import type { Exchange } from '../http/exchange.ts';
import { createAnswerHeaders } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import type { Handler, Refuse } from '../http/router.ts';
import type { SendText } from '../http/send-text.ts';
import { isObject } from '../json.ts';
import { type Awaitable, chain, err, ok, type Problem, type Result } from '../problem.ts';
import { remembering } from '../remembering.ts';
import { type SplitInput, withoutMeta } from '../tools/input.ts';
import type { Call, Tool, ToolAnswer } from '../tools/tool.ts';
import { type CallMaker, holdingOpen, type NeedsHttps } from './call.ts';
import { challengeFor } from './challenge.ts';
import type { RunTool } from './tool-call.ts';

export interface ToolsRouteOptions {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prefix: string;
  readonly newCall: CallMaker;
  readonly needsHttps: NeedsHttps;
  readonly runTool: RunTool;
  readonly sendText: SendText;
  readonly metadataUrl: () => string | null;
}

export interface ToolsRoute {
  readonly post: Handler;
  readonly refuse: Refuse;
  readonly absent: (exchange: Exchange) => Problem | null;
}

export function toolsRoute(options: ToolsRouteOptions): ToolsRoute {
  const { tools, prefix, newCall, needsHttps, runTool, sendText, metadataUrl } = options;
  const answerHeaders = createAnswerHeaders();
  const toolAt = remembering((path) => tools.get(path.slice(prefix.length)) ?? null);

  /** Every answer of a rate-limited tool states its limit, even a refusal before any guard. */
  function refuse(exchange: Exchange, problem: Problem, limit = toolAt(exchange.path)?.unusedLimit): Response {
    return problemResponse(problem, exchange.requestId, challengeFor(problem, metadataUrl()), limit);
  }

  function answer(exchange: Exchange, tool: Tool, body: unknown): Awaitable<Response> {
    const input = inputOf(body);
    if (!input.ok) return refuse(exchange, input.error);
    const key = metaApiKey(input.value.meta);
    if (key !== null && needsHttps(exchange)) return refuse(exchange, { code: 'https_required' });
    const call = newCall(exchange, key);
    const answered = holdingOpen(exchange, tool.timeoutMs, runTool(tool, input.value.fields, call));
    return chain(answered, respond, { exchange, call });
  }

  const respond = (
    answered: Result<ToolAnswer, Problem>,
    { exchange, call }: { readonly exchange: Exchange; readonly call: Call },
  ): Response =>
    answered.ok
      ? (sendText(textOf(answered.value), { headers: answerHeaders(call.rateLimit) }) ??
        refuse(exchange, { code: 'overloaded' }, call.rateLimit))
      : refuse(exchange, answered.error, call.rateLimit);

  function answerBody(body: Result<unknown, Problem>, exchange: Exchange): Awaitable<Response> {
    if (!body.ok) return refuse(exchange, body.error);
    const tool = toolAt(exchange.path);
    return tool === null ? refuse(exchange, NO_SUCH_TOOL) : answer(exchange, tool, body.value);
  }

  const post: Handler = (exchange) => withJson(exchange.request, answerBody, exchange);

  const absent = ({ path }: Exchange) => (toolAt(path) === null ? NO_SUCH_TOOL : null);

  return { post, refuse, absent };
}

const NO_SUCH_TOOL: Problem = { code: 'tool_not_found' };

const textOf = (answer: ToolAnswer): string => ('json' in answer ? answer.json : JSON.stringify(answer.content));

function inputOf(body: unknown): Result<SplitInput, Problem> {
  if (body === undefined) return ok({ fields: {}, meta: undefined });
  return isObject(body) ? ok(withoutMeta(body)) : err({ code: 'invalid_json' });
}
