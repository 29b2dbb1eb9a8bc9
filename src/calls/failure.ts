// Creates failures in a tool's own words, like `err(failure({ status: 502, code: 'orders_down', detail: 'The shop is
// closed' }))`, and recognizes problems that a tool, prompt or guard returns.

import type { Problem, ToolFailure } from '../ground/problem.ts';
import { redactKeys } from '../watch/redact.ts';
import { assertShape, FAILURE, faultOfProblem } from './untyped.ts';

export interface Failure {
  /** An HTTP status from 400 to 599, except 401 and 407: only guards ask for credentials. */
  readonly status: number;
  /** A name in snake_case of at most 64 characters, and none of the server's codes. Callers may rely on it. */
  readonly code: string;
  /** One sentence for the caller, program or model: 1 to 1,000 characters. It should quote no input. */
  readonly detail: string;
  /** Whole seconds after which a retry may help; only with 429 and 503. */
  readonly retryAfterS?: number;
}

/** Creates a tool's failure. Throws an Error for an invalid one, which is a bug of the tool. */
export function failure(made: Failure): ToolFailure {
  assertShape('failure', FAILURE, { ...made });
  const { status, code, detail, retryAfterS } = made;
  const base = { code: 'tool_failure', status, ownCode: code, detail: redactKeys(detail) } as const;
  return retryAfterS === undefined ? base : { ...base, retryAfterS };
}

/** Returns whether an untyped error is a problem with all fields that its code needs for a response. */
export const isProblem = (value: unknown): value is Problem => faultOfProblem(value) === null;
