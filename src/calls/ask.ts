// Implements `ask`, with which tools and prompts question the caller. It never waits: the tool returns unanswered
// questions as a value, and the client calls again with the responses. The server keeps nothing between the rounds.

import type { InputIssue, Problem } from '../ground/problem.ts';
import { type Awaitable, err, ok, type Result } from '../ground/result.ts';
import { isObject } from '../ground/text.ts';
import type { InputRequest, Question } from './questions.ts';

/** The client didn't declare this capability, or speaks an older revision or REST. The tool decides what to do. */
export interface Unavailable {
  readonly action: 'unavailable';
}

const UNAVAILABLE: Unavailable = { action: 'unavailable' };

const INCOMPLETE = ok('incomplete' as const);

type Questions = Readonly<Record<string, Question<unknown>>>;

/** The answers, by the names of the questions. */
export type Answers<Q extends Questions> = {
  readonly [Name in keyof Q]: (Q[Name] extends Question<infer A> ? A : never) | Unavailable;
};

/** What a tool returns instead of its output: the unanswered questions. */
export interface InputRequired {
  readonly code: 'input_required';
  readonly requests: Readonly<Record<string, InputRequest>>;
}

/**
 * Asks all these questions at once. The tool must return an error unchanged. Each name belongs to one question of the
 * call, which keeps its answer in all later rounds.
 */
export type Ask = <Q extends Questions>(questions: Q) => Result<Answers<Q>, InputRequired | Problem>;

/** How a transport asks the client of a call. `subject` identifies the call: its responses count for no other. */
export interface Asking {
  /** Whether the client shows forms. */
  readonly canAsk: boolean;
  /** Returns the response to a question; undefined if none has come yet. */
  responseTo(name: string): unknown;
  /** Carries a response to the next round, if there is one. */
  addToRequestState(name: string, response: unknown): void;
  /** The state of earlier rounds, sent back by the client; undefined in the first. */
  readonly requestState: string | undefined;
  /** Reads the responses in requestState. Resolves with a problem if they belong to another call. */
  readRequestState(requestState: string, subject: string): Promise<Problem | undefined>;
  /** Resolves with the JSON fields of the result that ends this round: the requests, and all responses in requestState. */
  inputRequiredResult(subject: string, requests: InputRequired['requests']): Awaitable<Result<string, Problem>>;
}

/** Creates the `ask` of a call. Without `asking`, every question is unavailable. */
export const askThrough =
  (asking: Asking | undefined): Ask =>
  <Q extends Questions>(questions: Q) => {
    const answers: Record<string, unknown> = {};
    const requests: Record<string, InputRequest> = {};
    for (const [name, question] of Object.entries(questions)) {
      if (typeof question?.read !== 'function') throw notAsked(name, question);
      const { request, read } = question;
      if (asking === undefined || !asking.canAsk) {
        answers[name] = UNAVAILABLE;
        continue;
      }
      const response = asking.responseTo(name);
      const understood = response === undefined ? INCOMPLETE : read(response);
      if (!understood.ok) return err(misreadProblem(name, understood.error.issues));
      if (understood.value === 'incomplete') {
        requests[name] = request;
        continue;
      }
      answers[name] = understood.value.answer;
      asking.addToRequestState(name, understood.value.response);
    }
    if (Object.keys(requests).length > 0) return err({ code: 'input_required', requests });
    return ok(answers as Answers<Q>);
  };

/** Creates the Error for what a JavaScript file asks in place of a question, above all a form without its message. */
const notAsked = (name: string, got: unknown) =>
  new Error(`ask: ${name}: expected a question, like form(schema)('Which?'), got ${typeof got}`);

const misreadProblem = (name: string, issues: readonly InputIssue[]): Problem => ({
  code: 'invalid_response',
  issues: issues.map(({ path, message }) => ({ path: path === '' ? name : `${name}.${path}`, message })),
});

/** The fields of `auth` that identify a key or a user. */
export interface Identified {
  readonly keyId?: string;
  readonly subject?: string;
  readonly actor?: unknown;
}

/**
 * Returns the text that identifies a call: the operation, the input as sent, and the caller, which is empty if no guard
 * for keys or users ran. The parsed input won't do, because JSON can't tell all its values apart.
 */
export const subjectOf = (
  { kind, name }: { readonly kind: string; readonly name: string },
  input: unknown,
  { keyId, subject, actor }: Identified,
): string => JSON.stringify([kind, name, [keyId, subject, actor], withSortedFields(input)]);

/** Sorts the fields of a value, because clients send them in any order. */
function withSortedFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSortedFields);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, withSortedFields(value[name])]),
  );
}
