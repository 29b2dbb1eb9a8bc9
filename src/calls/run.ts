// Runs every tool, prompt and completion, for REST and all MCP revisions: guard, input, function, output. Enforces the
// timeout, catches bugs, and revalidates the credential before anything leaves.

import { LIMITS } from '../ground/limits/index.ts';
import { OVERLOADED, type Problem, publicPart } from '../ground/problem.ts';
import { type Awaitable, chain, err, isPromise, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { bytesInMemory, isObject } from '../ground/text.ts';
import type { Log } from '../watch/log.ts';
import { thrownProblem } from '../watch/outage.ts';
import { redactKeys } from '../watch/redact.ts';
import { type Identified, type InputRequired, subjectOf } from './ask.ts';
import type { Call, CallResponse } from './call.ts';
import { isProblem } from './failure.ts';
import { addTo } from './guard.ts';
import { type CompleteOutput, jsonIn, type Operation, type Output, type ToolResult } from './operation.ts';
import { provedProgress, type Recheck } from './proof.ts';
import { assertWritable, inWords, withoutKeys } from './schema.ts';

/** A request or AbortController, whose signal cancels the call; read only if the tool doesn't return at once. */
export interface AbortSource {
  readonly signal: AbortSignal;
}

/**
 * Runs a call, and never throws or rejects. Returns at once if no step awaits anything. `canceller` aborts the call when
 * nobody awaits its response any more.
 */
export type Run = (operation: Operation, input: unknown, call: Call, canceller?: AbortSource) => Awaitable<ToolResult>;

/**
 * Creates the runner. It logs a bug in a tool and turns it into `internal`: that fails one call, not its batch or
 * stream, and counts against the rate limit like any response. The request stays in progress until the call is done or
 * out of time, even if the response was sent before (202, or an event stream).
 */
export function createRun({ clock, log, recheck }: { clock: Clock; log: Log; recheck: Recheck }) {
  let lastCalled: string | undefined; // the tool or prompt that was called last
  const waiting = new Waiting();

  function logRefusal(problem: Problem, { operation: { kind, name }, call }: Running): void {
    const { requestId, traceId } = call.caller;
    call.response.code = publicPart(problem).code;
    const fields = { requestId, traceId, [kind]: name };
    if (problem.code === 'tool_failure') log.warn('tool failed', { ...fields, code: problem.ownCode });
    if (problem.code !== 'tool_timeout') return;
    if (problem.byClient) log.info('tool call cancelled', fields);
    else log.warn('tool out of time', fields);
  }

  function problemOf(thrown: unknown, { operation: { kind, name }, call, canceller }: Running): Problem {
    // A throw after the abort is how the tool stops, not a bug.
    if (call.isAborted) return { code: 'tool_timeout', ...(canceller?.signal.aborted && { byClient: true }) };
    return thrownProblem(thrown, log, call.caller, { [kind]: name });
  }

  /** Resolves with the result, or with a problem if the call's credential is no longer good. */
  async function rechecked(result: ToolResult, call: Call): Promise<ToolResult> {
    const problem = await recheck.one(call);
    if (problem === undefined) return result;
    call.response.code = publicPart(problem).code;
    return err(problem);
  }

  /** Logs a refusal, and checks that the credential is still good. Every call that throws nothing ends here. */
  function finish(result: ToolResult, running: Running): Awaitable<ToolResult> {
    if (!result.ok) logRefusal(result.error, running);
    return recheck.isFresh(running.call.proof) ? result : rechecked(result, running.call);
  }

  function failure(thrown: unknown, running: Running): ToolResult {
    const problem = problemOf(thrown, running);
    logRefusal(problem, running);
    return err(problem);
  }

  async function awaitAll(pending: Promise<ToolResult>, running: Running): Promise<ToolResult> {
    try {
      return await pending;
    } catch (thrown) {
      return failure(thrown, running);
    } finally {
      running.end();
    }
  }

  // The steps of a call, each after the one before. Where none awaits anything, no promise is made.

  function afterGuard(result: Result<object, Problem> | undefined, running: Running): Awaitable<ToolResult> {
    const { operation, input, call } = running;
    if (!result?.ok) return err(problemIn(result?.error, operation.name, 'its guard'));
    const parsed = operation.parse(input);
    if (!parsed.ok) return parsed;
    running.parsed = parsed.value;
    addTo(call, result.value);
    const reading = readState(operation, input, call);
    return reading === undefined ? afterState(undefined, running) : chain(running.race(reading), afterState, running);
  }

  function afterState(problem: Problem | undefined, running: Running): Awaitable<ToolResult> {
    if (problem !== undefined) return err(problem);
    const { operation, call } = running;
    if (call.isAborted) return err(problemOf(undefined, running)); // it has not begun
    if (call.reportsProgress) call.progress = provedProgress(recheck, call, call.progress);
    return chain(running.race(operation.run(running.parsed, call)), afterTool, running);
  }

  function afterTool(result: Returned, { operation, input, call }: Running): Awaitable<ToolResult> {
    if (result?.ok) return ok(boundedOutput(operation.name, encodedOutput(operation, result.value, call.response)));
    const error = result?.error;
    if (error?.code === 'input_required') return inputRequired(operation, input, call, error);
    return err(inOwnWords(problemIn(error, operation.name, 'run')));
  }

  const run: Run = (operation, input, call, canceller) => {
    if (waiting.hasEnded) return err(OVERLOADED); // the next one of a batch
    const running = new Running(operation, input, call, clock, waiting, canceller);
    lastCalled = operation.name;
    call.begin();
    try {
      const result = chain(chain(running.race(operation.guard(call)), afterGuard, running), finish, running);
      if (isPromise(result)) return awaitAll(result, running);
      running.end();
      return result;
    } catch (thrown) {
      running.end();
      return failure(thrown, running);
    }
  };

  return { run, endCalls: () => waiting.end(), lastCalled: () => lastCalled };
}

/** The calls that await something: for each what ends it as if its time were up. */
class Waiting extends Set<() => void> {
  hasEnded = false;

  /** Ends all calls, and lets none begin: the server stops. */
  end(): void {
    this.hasEnded = true;
    for (const endNow of this) endNow();
  }
}

type Returned = Result<unknown, Problem | InputRequired> | undefined;

/**
 * A call under way, with its timeout. That starts with the first promise that the call awaits: most await none, and a
 * timer costs as much as such a call.
 */
class Running {
  parsed: unknown = undefined;
  #outOfTime: Promise<never> | undefined;
  #stop: (() => void) | undefined;

  constructor(
    readonly operation: Operation,
    readonly input: unknown,
    readonly call: Call,
    readonly clock: Clock,
    readonly waiting: Waiting,
    readonly canceller: AbortSource | undefined,
  ) {}

  /** Awaits a promise; rejects when time is up. A cancelled call is awaited until then, too. */
  race<T>(pending: Awaitable<T>): Awaitable<T> {
    if (!isPromise(pending)) return pending;
    this.#outOfTime ??= new Promise((_, reject) => this.#begin(reject));
    return Promise.race([pending, this.#outOfTime]);
  }

  #begin(reject: (reason: Error) => void): void {
    const { call, clock, operation, waiting } = this;
    const endNow = () => {
      const reason = new Error('tool timeout');
      reject(reason); // first: a tool that returns when it is aborted is late
      call.abort(reason);
    };
    const cancelTimer = clock.after(operation.timeoutMs, endNow);
    waiting.add(endNow);
    const signal = this.canceller?.signal;
    const cancel = () => call.abort(signal?.reason);
    if (signal?.aborted) cancel();
    signal?.addEventListener('abort', cancel, { once: true });
    this.#stop = () => {
      cancelTimer();
      waiting.delete(endNow);
      signal?.removeEventListener('abort', cancel);
    };
  }

  end(): void {
    this.#stop?.();
    this.call.end();
  }
}

/** Reads the state that the client carries from the last round; undefined in the first. */
function readState(operation: Operation, input: unknown, call: Call): Promise<Problem | undefined> | undefined {
  const { asking } = call;
  if (asking?.requestState === undefined) return undefined;
  return asking.readRequestState(asking.requestState, subjectOf(operation, input, authOf(call)));
}

/**
 * Returns the problem that a guard or `run` has returned, with issues as clients are told of them: untyped ones may have
 * more, even what JSON can't write. Throws an Error if it isn't a problem: the compiler doesn't check every file.
 */
function problemIn(error: Problem | undefined, name: string, from: string): Problem {
  if (!isProblem(error)) {
    const expected = 'ok(…), or err of a failure(…), or of a problem with all it needs; a bug is thrown, not returned';
    throw new Error(`${name}: expected ${from} to return ${expected}`);
  }
  return 'issues' in error ? { ...error, issues: error.issues.map(withoutKeys) } : error;
}

/**
 * Puts the issues of invalid input into the detail, in place of the sentence that it does not fit the tool's schema: this
 * input fits it, or no tool takes it.
 */
export function inOwnWords(problem: Problem): Problem {
  if (problem.code !== 'invalid_input' || problem.issues.length === 0) return problem;
  return { ...problem, detail: redactKeys(problem.detail ?? inWords(problem.issues)).toWellFormed() };
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

function encodedOutput(
  { name, validate, encode }: Operation,
  returned: unknown,
  response: CallResponse,
): CompleteOutput {
  if (validate === null) return encode(returned, response);
  const output = validate(returned);
  assertWritable(name, output);
  assertWritable(name, response.forWidget, true);
  const encoded = encode(output, response);
  if (!jsonIn(encoded).startsWith('{')) throw new Error(`${name}: expected an output that JSON writes as an object`);
  return encoded;
}

/** Returns the output. Throws an Error if it is too large, because a problem would invite a retry. */
function boundedOutput(name: string, output: CompleteOutput): Output {
  const text = jsonIn(output);
  const { widgetJson = '' } = output;
  const { each: bytesMax } = LIMITS.output;
  if (2 * (text.length + widgetJson.length) <= bytesMax) return output; // an upper bound of the bytes
  const bytes = bytesInMemory(text) + bytesInMemory(widgetJson);
  if (bytes > bytesMax) throw new Error(`${name}: expected an output of at most ${bytesMax} bytes, got ${bytes}`);
  return output;
}
