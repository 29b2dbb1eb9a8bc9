// Runs every tool, prompt and completion, for REST and all MCP revisions: guard, input, function, output. Enforces the
// timeout, catches bugs, and revalidates the credential before anything leaves.

import { LIMITS } from '../ground/limits/index.ts';
import { type Problem, publicPart } from '../ground/problem.ts';
import { type Awaitable, err, isPromise, ok, StoreOutage } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { bytesInMemory, isObject } from '../ground/text.ts';
import type { Log } from '../watch/log.ts';
import { outageProblem } from '../watch/outage.ts';
import { redactKeys } from '../watch/redact.ts';
import { type Identified, type InputRequired, subjectOf } from './ask.ts';
import type { Call } from './call.ts';
import { isProblem } from './failure.ts';
import { addTo } from './guard.ts';
import type { CompleteOutput, Operation, Output, ToolResult } from './operation.ts';
import { provedProgress, type Recheck } from './proof.ts';
import { assertNumbers, inWords, withoutKeys } from './schema.ts';

/**
 * A request or an AbortController, whose signal cancels the call. It is read only if the tool doesn't return at once.
 */
export type AbortSource = Pick<Request, 'signal'>;

/** Runs a call, and never rejects. `canceller` aborts it when nobody awaits its response any more. */
export type Run = (operation: Operation, input: unknown, call: Call, canceller?: AbortSource) => Promise<ToolResult>;

interface Options {
  readonly clock: Clock;
  readonly log: Log;
  readonly recheck: Recheck;
}

export interface Runner {
  readonly run: Run;
  /** Returns the name of the tool or prompt that ran last. */
  lastCalled(): string | undefined;
}

/**
 * Creates the runner. It logs a bug in a tool and turns it into `internal`: that fails one call, not its batch or
 * stream, and counts against the rate limit like any response. The request stays in progress until the call is done or
 * out of time, even if the response was sent before (202, or an event stream).
 */
export function createRun({ clock, log, recheck }: Options): Runner {
  let lastCalled: string | undefined;

  function logRefusal(problem: Problem, { kind, name }: Operation, call: Call): void {
    const { requestId, traceId } = call;
    call.code = publicPart(problem).code;
    const fields = { requestId, traceId, [kind]: name };
    if (problem.code === 'tool_failure') log.warn('tool failed', { ...fields, code: problem.ownCode });
    if (problem.code !== 'tool_timeout') return;
    if (problem.byClient) log.info('tool call cancelled', fields);
    else log.warn('tool out of time', fields);
  }

  function problemOf(thrown: unknown, { kind, name }: Operation, call: Call, canceller?: AbortSource): Problem {
    // A throw after the abort is how the tool stops, not a bug.
    if (call.isAborted) return { code: 'tool_timeout', ...(canceller?.signal.aborted && { byClient: true }) };
    if (thrown instanceof StoreOutage) return outageProblem(thrown, log, call);
    const { requestId, traceId } = call;
    log.error('internal error', { requestId, traceId, [kind]: name, error: thrown });
    return { code: 'internal' };
  }

  /** Resolves with the result, or with a problem if the call's credential is no longer good. */
  async function proved(result: ToolResult, call: Call): Promise<ToolResult> {
    const problem = (await recheck([call])).get(call);
    if (problem === undefined) return result;
    call.code = publicPart(problem).code;
    return err(problem);
  }

  function checkedResult(result: ToolResult, operation: Operation, call: Call): Awaitable<ToolResult> {
    if (!result.ok) logRefusal(result.error, operation, call);
    return recheck.isFresh(call) ? result : proved(result, call);
  }

  const run: Run = async (operation, input, call, canceller) => {
    const { name, guard, parse } = operation;
    const timeLimit = new TimeLimit(operation.timeoutMs, clock, call, canceller);
    lastCalled = name;
    call.begin();
    try {
      const guarding = guard(call);
      const guarded = isPromise(guarding) ? await timeLimit.race(guarding) : guarding;
      if (!guarded.ok) return await checkedResult(err(refusalOfGuard(guarded.error, name, call)), operation, call);
      const parsed = parse(input);
      if (!parsed.ok) return await checkedResult(parsed, operation, call);
      const context = addTo(call, guarded.value);
      const reading = readState(operation, input, call);
      const problem = reading && (await timeLimit.race(reading));
      if (problem !== undefined) return await checkedResult(err(problem), operation, call);
      if (call.reportsProgress) call.progress = provedProgress(recheck, call, call.progress);
      const running = operation.run(parsed.value, context);
      const returned = isPromise(running) ? await timeLimit.race(running) : running;
      const result = returned?.ok
        ? ok(boundedOutput(name, encodedOutput(operation, returned.value, call)))
        : await refusalOfTool(returned?.error, operation, input, call);
      const checked = checkedResult(result, operation, call);
      return isPromise(checked) ? await checked : checked;
    } catch (thrown) {
      const problem = problemOf(thrown, operation, call, canceller);
      logRefusal(problem, operation, call);
      return err(problem);
    } finally {
      timeLimit.end();
      call.end();
    }
  };

  return { run, lastCalled: () => lastCalled };
}

/**
 * The timeout of a call. It starts with the first promise that the call awaits: most await none, and a timer costs as
 * much as such a call.
 */
class TimeLimit {
  #outOfTime: Promise<never> | undefined;
  #end: (() => void) | undefined;

  constructor(
    readonly timeoutMs: number,
    readonly clock: Clock,
    readonly call: Call,
    readonly canceller: AbortSource | undefined,
  ) {}

  /** Awaits the promise; rejects when time is up. A cancelled call is awaited until then, too. */
  race<T>(pending: Promise<T>): Promise<T> {
    this.#outOfTime ??= new Promise((_, reject) => this.#begin(reject));
    return Promise.race([pending, this.#outOfTime]);
  }

  #begin(reject: (reason: Error) => void): void {
    const { call, clock, timeoutMs } = this;
    const cancelTimer = clock.after(timeoutMs, () => {
      const reason = new Error('tool timeout');
      reject(reason); // first: a tool that returns when it is aborted is late
      call.abort(reason);
    });
    const signal = this.canceller?.signal;
    const cancel = () => call.abort(signal?.reason);
    if (signal?.aborted) cancel();
    signal?.addEventListener('abort', cancel, { once: true });
    this.#end = () => {
      cancelTimer();
      signal?.removeEventListener('abort', cancel);
    };
  }

  end(): void {
    this.#end?.();
  }
}

/** Reads the state that the client carries from the last round; undefined in the first. */
function readState(operation: Operation, input: unknown, call: Call): Promise<Problem | undefined> | undefined {
  const { asking } = call;
  if (asking?.requestState === undefined) return undefined;
  return asking.readRequestState(asking.requestState, subjectOf(operation, input, authOf(call)));
}

const THROWN = 'a bug is thrown, not returned';

/**
 * Returns a guard's problem, and puts its limits on the call. Throws an Error if it isn't a problem: the compiler
 * doesn't check every guard.
 */
function refusalOfGuard(error: Problem, name: string, call: Call): Problem {
  if (!isProblem(error)) {
    throw new Error(`${name}: expected its guard to return ok(…), or err of a problem with all it needs; ${THROWN}`);
  }
  if ('limits' in error && error.limits) call.limits = error.limits;
  return error;
}

/** Returns the result of a call whose tool returned a problem or questions. */
function refusalOfTool(
  error: Problem | InputRequired | undefined,
  operation: Operation,
  input: unknown,
  call: Call,
): Awaitable<ToolResult> {
  const { name } = operation;
  if (error === undefined) throw new Error(`${name}: expected run to return ok(…) or err(…)`);
  if (error.code === 'input_required') return inputRequired(operation, input, call, error);
  if (isProblem(error)) return err(inOwnWords(error));
  throw new Error(`${name}: expected err(failure(…)), or err of a problem with all it needs; ${THROWN}`);
}

/**
 * Puts the issues of a tool's problem into its detail: only the tool knows what is wrong with input that fits the
 * schema.
 */
function inOwnWords(problem: Problem): Problem {
  if (problem.code !== 'invalid_input' || problem.issues.length === 0) return problem;
  const issues = problem.issues.map(withoutKeys);
  return { ...problem, issues, detail: redactKeys(problem.detail ?? inWords(issues)) };
}

async function inputRequired(
  operation: Operation,
  input: unknown,
  call: Call,
  { requests }: InputRequired,
): Promise<ToolResult> {
  if (!isObject(requests)) throw new Error(`${operation.name}: expected the error of ask as it is`);
  if (call.asking === undefined) throw new Error(`${operation.name}: it asks, but nobody can be asked`);
  const asked = await call.asking.inputRequiredResult(subjectOf(operation, input, authOf(call)), requests);
  return asked.ok ? ok({ inputRequired: asked.value }) : asked;
}

/** Returns the caller's identity, if a guard for keys or users ran. */
const authOf = (call: Call): Identified => (call as { readonly auth?: Identified }).auth ?? {};

function encodedOutput({ name, validate, encode }: Operation, returned: unknown, call: Call): CompleteOutput {
  if (validate === null) return encode(returned, call);
  const output = validate(returned);
  const encoded = encode(output, call);
  assertNumbers(name, output, 'json' in encoded ? encoded.json : encoded.contentJson);
  return encoded;
}

/** Returns the output. Throws an Error if it is too large, because a problem would invite a retry. */
function boundedOutput(name: string, output: CompleteOutput): Output {
  const texts = ['json' in output ? output.json : output.contentJson, output.widgetJson ?? ''];
  const { each: bytesMax } = LIMITS.output;
  const chars = texts.reduce((sum, { length }) => sum + length, 0);
  if (2 * chars <= bytesMax) return output; // an upper bound of the bytes
  const bytes = texts.reduce((sum, text) => sum + bytesInMemory(text), 0);
  if (bytes > bytesMax) throw new Error(`${name}: expected an output of at most ${bytesMax} bytes, got ${bytes}`);
  return output;
}
