// POST /tools/<name>: a tool over plain HTTP. Body in, callTool, answer out.

import { readJson } from '../http/body.ts';
import { metaApiKey } from '../http/credentials.ts';
import type { Exchange } from '../http/exchange.ts';
import { privateJsonHeaders, rateLimitHeaders } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import type { Handler } from '../http/router.ts';
import { chain, err, ok, type Problem, type Result } from '../problem.ts';
import { type SplitInput, withoutMeta } from '../tools/input.ts';
import { type Call, callTool, type Tool, type ToolAnswer } from '../tools/tool.ts';
import { type CallMaker, holdingOpen } from './call.ts';
import { challengeFor } from './challenge.ts';

export interface ToolsRouteOptions {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prefix: string;
  readonly newCall: CallMaker;
  readonly metadataUrl: () => string | null;
}

export function toolsRoute({ tools, prefix, newCall, metadataUrl }: ToolsRouteOptions): Handler {
  const refuse = (exchange: Exchange, problem: Problem) =>
    problemResponse(problem, exchange.requestId, challengeFor(problem, metadataUrl()));

  return async (exchange) => {
    const tool = tools.get(exchange.path.slice(prefix.length));
    if (tool === undefined) return refuse(exchange, { code: 'tool_not_found' });
    const body = await readJson(exchange.request);
    if (!body.ok) return refuse(exchange, body.error);
    const input = inputOf(body.value);
    if (!input.ok) return refuse(exchange, input.error);
    const made = newCall(exchange, metaApiKey(input.value.meta));
    if (!made.ok) return refuse(exchange, made.error);
    const call = made.value;
    const answered = holdingOpen(exchange, tool, callTool(tool, input.value.fields, call, exchange.request.signal));
    return chain(answered, (answer) => {
      const response = answer.ok ? success(answer.value, call) : refuse(exchange, answer.error);
      if (!answer.ok && call.answer.rateLimit !== undefined) {
        for (const [name, value] of Object.entries(rateLimitHeaders(call.answer.rateLimit)))
          response.headers.set(name, value);
      }
      return response;
    });
  };
}

function success(answer: ToolAnswer, { answer: { rateLimit } }: Call): Response {
  const body = 'json' in answer ? answer.json : JSON.stringify(answer.content);
  return new Response(body, { headers: privateJsonHeaders(rateLimit) });
}

function inputOf(body: unknown): Result<SplitInput, Problem> {
  if (body === undefined) return ok({ fields: {}, meta: undefined });
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return err({ code: 'invalid_json' });
  return ok(withoutMeta(body as Record<string, unknown>));
}
