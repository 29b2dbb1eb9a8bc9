// The one way to run a tool or a prompt, for REST and every MCP era: within its time, with bugs caught.

import type { InFlight } from '../lib/in-flight.ts';
import { type Awaitable, chain, err, isPromise, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { Call } from './call.ts';
import type { Leave } from './leave.ts';
import type { Operation, Output } from './operation.ts';

/**
 * Something whose signal cancels a call: a request, or an AbortController. Only read when the tool doesn't return at
 * once.
 */
export type AbortSource = Pick<Request, 'signal'>;

/** Runs an operation within its time. `canceller` aborts it early, when its response is not awaited any more. */
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
    // What a tool throws after it was told to stop is its way of stopping, not a bug.
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
  /** Of several calls whose results leave together: they have to pass `leave.together`. All others may leave at once. */
  readonly oneOfMany: Run;
}

export interface ToolRunner extends RunTool {
  /** The tool or prompt that was called last. */
  lastRun(): string | undefined;
}

interface Options {
  readonly clock: Clock;
  readonly log: Log;
  readonly inFlight: InFlight;
  readonly leave: Leave;
}

/**
 * Runs tools and prompts. A bug in one is logged and becomes `internal`: it fails one call, not the batch or stream that
 * it is in, and counts against the rate limit like any other response. A call counts as under way until it is done or
 * out of time, even if its response was sent before (202, or an event stream), and so does its request.
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

  /** `tool_timeout` is also how a call ends that its client has cancelled. */
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
