// The one way to run a tool or a prompt, for REST and every MCP era: within its time, with bugs caught.

import type { SendBudget } from '../../http/send-budget.ts';
import type { InFlight } from '../../lib/in-flight.ts';
import { type Awaitable, err, isPromise, type Result } from '../../lib/result.ts';
import type { Log } from '../../log/log.ts';
import type { Problem } from '../../problem.ts';
import type { Call } from './call.ts';
import type { Confirm } from './confirm.ts';
import type { Operation, Output } from './operation.ts';

/**
 * Something whose signal cancels a call: a request, or an AbortController. Only read when the tool doesn't answer at
 * once.
 */
export type AbortSource = Pick<Request, 'signal'>;

/**
 * Runs an operation within its time. A long output counts against `budget` while it grows. `canceller` aborts it early,
 * when nobody waits for its response any more.
 */
export function runOperation(
  operation: Operation,
  input: unknown,
  call: Call,
  budget: SendBudget,
  canceller?: AbortSource,
): Awaitable<ToolResult> {
  call.tool = operation.name;
  if (operation.fullQuota !== null) call.rateLimit = operation.fullQuota;
  const answer = operation.invoke(input, call, budget);
  return isPromise(answer) ? runWithTimeout(operation, call, answer, canceller?.signal) : answer;
}

function runWithTimeout(
  { timeoutMs }: Operation,
  call: Call,
  answer: Promise<Result<Output, Problem>>,
  cancelled: AbortSignal | undefined,
): Promise<Result<Output, Problem>> {
  return new Promise((resolve, reject) => {
    const cancel = () => call.abort(cancelled?.reason);
    const giveUp = () => resolve(err({ code: 'tool_timeout' }));
    const timer = setTimeout(() => {
      call.abort(new Error('tool timeout'));
      giveUp();
    }, timeoutMs);
    if (cancelled?.aborted) cancel();
    cancelled?.addEventListener('abort', cancel, { once: true });
    // What a tool throws after it was told to stop is its way of stopping, not a bug.
    answer
      .then(resolve, (bug) => (call.isAborted ? giveUp() : reject(bug)))
      .finally(() => {
        clearTimeout(timer);
        cancelled?.removeEventListener('abort', cancel);
      });
  });
}

export type ToolResult = Result<Output, Problem>;

export type RunTool = (
  operation: Operation,
  input: unknown,
  call: Call,
  canceller?: AbortSource,
) => Awaitable<ToolResult>;

/**
 * Runs tools and prompts. A bug in one is logged and becomes `internal`: it fails one call, not the batch or stream that it is in,
 * and counts against the rate limit like any other answer. A call counts as under way until it is done, even if its
 * request was answered before (202, or an event stream). A success that took a while is confirmed. What a call holds until
 * its response has left is released here if it fails; if it succeeds, whoever sends the response takes it over.
 */
export function createToolRunner(log: Log, inFlight: InFlight, confirm: Confirm, budget: SendBudget): RunTool {
  function failed(error: unknown, operation: Operation, call: Call): ToolResult {
    const { kind, name } = operation;
    log.error('internal error', { requestId: call.requestId, traceId: call.traceId, [kind]: name, error });
    return over(err({ code: 'internal' }), operation, call);
  }

  function over(result: ToolResult, { kind, name }: Operation, call: Call): ToolResult {
    if (result.ok) return result;
    const { requestId, traceId } = call;
    const { error: problem } = result;
    if (problem.code === 'tool_failure')
      log.warn('tool failed', { requestId, traceId, [kind]: name, code: problem.ownCode });
    call.release();
    return result;
  }

  async function finished(answer: Promise<ToolResult>, operation: Operation, call: Call): Promise<ToolResult> {
    inFlight.enter();
    try {
      const result = await answer;
      if (!result.ok && result.error.code === 'tool_timeout') {
        const { requestId, traceId } = call;
        log.warn('tool out of time', { requestId, traceId, [operation.kind]: operation.name });
      }
      const problem = result.ok ? await confirm(call) : undefined;
      return over(problem === undefined ? result : err(problem), operation, call);
    } catch (error) {
      return failed(error, operation, call);
    } finally {
      inFlight.leave();
    }
  }

  return (operation, input, call, canceller) => {
    try {
      const answer = runOperation(operation, input, call, budget, canceller);
      return isPromise(answer) ? finished(answer, operation, call) : over(answer, operation, call);
    } catch (error) {
      return failed(error, operation, call);
    }
  };
}
