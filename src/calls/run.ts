// The one way to run a tool or a prompt, for REST and every MCP era: within its time, with bugs caught.

import type { InFlight } from '../lib/in-flight.ts';
import { type Awaitable, chain, err, isPromise, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { Call } from './call.ts';
import type { Leave } from './leave.ts';
import type { Operation, Output } from './operation.ts';

/** Its signal cancels a call: of a request, or an AbortController. Read only when the tool doesn't return at once. */
export type AbortSource = Pick<Request, 'signal'>;

/** Runs an operation within its time. `canceller` aborts it when its response is no longer awaited. */
export function runOperation(
  operation: Operation,
  input: unknown,
  call: Call,
  clock: Clock,
  canceller?: AbortSource,
): Awaitable<ToolResult> {
  const result = operation.invoke(input, call);
  return isPromise(result) ? runWithTimeout(operation, call, result, clock, canceller?.signal) : result;
}

function runWithTimeout(
  { timeoutMs }: Operation,
  call: Call,
  pending: Promise<ToolResult>,
  clock: Clock,
  cancelled: AbortSignal | undefined,
): Promise<ToolResult> {
  return new Promise((resolve, reject) => {
    const cancel = () => call.abort(cancelled?.reason);
    const giveUp = () => resolve(err({ code: 'tool_timeout' }));
    const cancelTimeout = clock.after(timeoutMs, () => {
      call.abort(new Error('tool timeout'));
      giveUp();
    });
    if (cancelled?.aborted) cancel();
    cancelled?.addEventListener('abort', cancel, { once: true });
    // A throw after the abort is the tool's way of stopping, not a bug.
    pending
      .then(resolve, (bug) => (call.isAborted ? giveUp() : reject(bug)))
      .finally(() => {
        cancelTimeout();
        cancelled?.removeEventListener('abort', cancel);
      });
  });
}

export type ToolResult = Result<Output, Problem>;

export type Run = (operation: Operation, input: unknown, call: Call, canceller?: AbortSource) => Awaitable<ToolResult>;

export interface RunTool extends Run {
  /** For one of several calls whose results must pass `leave.together`. All others may leave at once. */
  readonly oneOfMany: Run;
}

export interface ToolRunner extends RunTool {
  /** The name of the tool or prompt that ran last. */
  lastRun(): string | undefined;
}

interface Options {
  readonly clock: Clock;
  readonly log: Log;
  readonly inFlight: InFlight;
  readonly leave: Leave;
}

/**
 * A bug in a tool is logged and becomes `internal`: it fails one call and not its batch or stream, and counts against
 * the rate limit like any other response. A call is in flight until it is done or out of time, even if its response was
 * sent before (202, or an event stream), and so is its request.
 */
export function createToolRunner({ log, inFlight, leave, clock }: Options): ToolRunner {
  let lastRun: string | undefined;

  function failed(error: unknown, operation: Operation, call: Call): ToolResult {
    const { kind, name } = operation;
    log.error('internal error', { requestId: call.requestId, traceId: call.traceId, [kind]: name, error });
    return err({ code: 'internal' });
  }

  function over(result: ToolResult, { kind, name }: Operation, { requestId, traceId }: Call): ToolResult {
    if (result.ok || result.error.code !== 'tool_failure') return result;
    log.warn('tool failed', { requestId, traceId, [kind]: name, code: result.error.ownCode });
    return result;
  }

  /** `tool_timeout` is also the result of a call that its client cancelled. */
  function logStopped({ kind, name }: Operation, { requestId, traceId }: Call, canceller?: AbortSource): void {
    const fields = { requestId, traceId, [kind]: name };
    if (canceller?.signal.aborted) log.info('tool call cancelled', fields);
    else log.warn('tool out of time', fields);
  }

  async function finished(
    pending: Promise<ToolResult>,
    operation: Operation,
    call: Call,
    canceller?: AbortSource,
  ): Promise<ToolResult> {
    inFlight.enter();
    const requestOver = call.extend();
    try {
      const result = await pending;
      if (!result.ok && result.error.code === 'tool_timeout') logStopped(operation, call, canceller);
      return over(result, operation, call);
    } catch (error) {
      return failed(error, operation, call);
    } finally {
      requestOver();
      inFlight.leave();
    }
  }

  const oneOfMany: Run = (operation, input, call, canceller) => {
    lastRun = operation.name;
    try {
      const result = runOperation(operation, input, call, clock, canceller);
      return isPromise(result) ? finished(result, operation, call, canceller) : over(result, operation, call);
    } catch (error) {
      return failed(error, operation, call);
    }
  };

  const run: Run = (operation, input, call, canceller) =>
    chain(oneOfMany(operation, input, call, canceller), leave<Output>, call);

  return Object.assign(run, { oneOfMany, lastRun: () => lastRun });
}
