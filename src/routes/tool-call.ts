// How every route calls a tool, and the text that answers an MCP message, the same for /mcp and /sse.

import { SECURITY_HEADERS } from '../http/headers.ts';
import type { InFlight } from '../in-flight.ts';
import type { Log } from '../log.ts';
import type { Era } from '../mcp/era.ts';
import { errorText, type Id, resultText } from '../mcp/message.ts';
import type { Methods, ToolStep } from '../mcp/methods.ts';
import { rpcErrorOf, toolResultMembers } from '../mcp/tool-result.ts';
import { err, isPromise, type Problem, type Result } from '../problem.ts';
import { type Call, callTool, type Tool, type ToolAnswer } from '../tools/tool.ts';
import { challengeFor } from './challenge.ts';
import type { Confirm } from './confirm.ts';

export type ToolResult = Result<ToolAnswer, Problem>;
export type RunTool = typeof callTool;

/**
 * Calls tools. A bug in one is logged and becomes `internal`: it fails one call, not the batch or stream that it is in,
 * and counts against the rate limit like any other answer. A call counts as under way until it is done, even if its
 * request was answered before (202, or an event stream). A success that took a while is confirmed. What a call holds until
 * its response has left is released here if it fails; if it succeeds, whoever sends the response takes it over.
 */
export function createToolRunner(log: Log, inFlight: InFlight, confirm: Confirm): RunTool {
  function failed(error: unknown, tool: Tool, call: Call): ToolResult {
    log.error('internal error', { requestId: call.requestId, tool: tool.name, error });
    return over(err({ code: 'internal' }), call);
  }

  function over(result: ToolResult, call: Call): ToolResult {
    if (!result.ok) call.release();
    return result;
  }

  async function finished(answer: Promise<ToolResult>, tool: Tool, call: Call): Promise<ToolResult> {
    inFlight.enter();
    try {
      const result = await answer;
      if (!result.ok && result.error.code === 'tool_timeout') {
        log.warn('tool out of time', { requestId: call.requestId, tool: tool.name });
      }
      const problem = result.ok ? await confirm(call) : undefined;
      return over(problem === undefined ? result : err(problem), call);
    } catch (error) {
      return failed(error, tool, call);
    } finally {
      inFlight.leave();
    }
  }

  return (tool, input, call, canceller) => {
    try {
      const answer = callTool(tool, input, call, canceller);
      return isPromise(answer) ? finished(answer, tool, call) : over(answer, call);
    } catch (error) {
      return failed(error, tool, call);
    }
  };
}

/** The answer to a message that needs none. */
export const accepted = () => new Response(null, { status: 202, headers: SECURITY_HEADERS });

/** The message that answers a tools/call. */
export function toolResultText(
  methods: Methods,
  { id, era, requestId }: { readonly id: Id; readonly era: Era; readonly requestId: string },
  result: ToolResult,
): string {
  const error = result.ok ? undefined : rpcErrorOf(result.error, requestId);
  return error === undefined ? resultText(id, methods.framed(era, toolResultMembers(result))) : errorText(id, error);
}

/** The text that answers a call has at least this many characters: JSON is in it twice (toolResultMembers). */
export const resultCharsMin = (result: ToolResult): number =>
  result.ok && 'json' in result.value ? 2 * result.value.json.length : 0;

/** The challenge for a user's tool without a valid token: the one refusal that a client can mend by itself. */
export function oauthChallenge(
  { tool }: ToolStep,
  result: ToolResult,
  metadataUrl: () => string | null,
): { readonly problem: Problem; readonly header: string | null } | null {
  if (result.ok || tool.credential !== 'user_jwt') return null;
  const { error: problem } = result;
  if (problem.code !== 'missing_token' && problem.code !== 'invalid_token') return null;
  const url = metadataUrl();
  return url === null ? null : { problem, header: challengeFor(problem, url) };
}
