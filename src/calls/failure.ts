// Creates failures in a tool's own words, like `err(failure({ status: 502, code: 'orders_down', detail: 'The shop is
// closed' }))`, and recognizes problems that a tool, prompt or guard returns. Each refused call is checked, so these
// are plain functions, not schemas.

import { isProblemCode, type Problem, type ProblemCode, type ToolFailure } from '../ground/problem.ts';
import { hasLength, isObject, type JsonObject } from '../ground/text.ts';
import { redactKeys } from '../watch/redact.ts';
import { isText, isWhole, wrongField } from './definition-checks.ts';

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
  const fault = faultOfFailure({ ...made });
  if (fault !== null) throw new Error(`failure: ${fault}`);
  const { status, code, detail, retryAfterS } = made;
  const base = { code: 'tool_failure', status, ownCode: code, detail: redactKeys(detail).toWellFormed() } as const;
  return retryAfterS === undefined ? base : { ...base, retryAfterS };
}

const CODE = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;
const CODE_CHARS_MAX = 64;
const DETAIL_CHARS_MAX = 1000;
const ASKS_FOR_CREDENTIALS: readonly number[] = [401, 407];
/** The statuses with Retry-After (RFC 9110 §15.6.4, RFC 6585 §4). */
const RETRIED: readonly number[] = [429, 503];

function faultOfFailure({ status, code, detail, retryAfterS }: JsonObject): string | null {
  if (!isWhole(status, 400, 599) || ASKS_FOR_CREDENTIALS.includes(status)) {
    return wrongField('status', 'a status from 400 to 599 except 401 and 407', status);
  }
  if (!isText(code) || code.length > CODE_CHARS_MAX || !CODE.test(code)) {
    return wrongField('code', `a code in snake_case of at most ${CODE_CHARS_MAX} characters`, code);
  }
  if (isProblemCode(code)) return wrongField('code', "a code of the tool's own, not one of the server's", code);
  if (!isText(detail) || !hasLength(detail, 1, DETAIL_CHARS_MAX)) {
    return wrongField('detail', `a detail of 1 to ${DETAIL_CHARS_MAX} characters`, detail);
  }
  if (retryAfterS === undefined) return null;
  if (!RETRIED.includes(status)) return wrongField('retryAfterS', 'it only with the status 429 or 503', retryAfterS);
  return isWhole(retryAfterS, 0) ? null : wrongField('retryAfterS', 'a whole number of seconds', retryAfterS);
}

/** Returns whether an untyped error is a problem with all fields that its code needs for a response. */
export const isProblem = (value: unknown): value is Problem =>
  isObject(value) &&
  isText(value.code) &&
  isProblemCode(value.code) &&
  (!('issues' in value) || areIssues(value.issues)) &&
  (value.sent === undefined || value.sent === 'api_key' || value.sent === 'user_token') &&
  (value.of === undefined || value.of === 'owner') &&
  isTextOrNone(value.help) &&
  (FIELDS_FIT[value.code as ProblemCode]?.(value) ?? true);

/** Returns whether a problem has the further fields of its code. */
const FIELDS_FIT: { readonly [Code in ProblemCode]?: (problem: JsonObject) => boolean } = {
  invalid_input: ({ issues, detail }) => areIssues(issues) && isTextOrNone(detail),
  invalid_response: ({ issues }) => areIssues(issues),
  internal: () => false, // a bug is thrown: the log says what went wrong
  insufficient_scope: ({ required }) => isList(required, isAscii),
  scope_not_granted: ({ grantable }) => isList(grantable, isText),
  method_not_allowed: ({ allow }) => isAscii(allow),
  rotation_under_way: ({ untilMs }) => Number.isFinite(untilMs),
  rate_limited: isLimited,
  quota_exceeded: isLimited,
  tool_failure: ({ ownCode, ...made }) => faultOfFailure({ ...made, code: ownCode }) === null,
};

function isLimited({ retryAfterS }: JsonObject): boolean {
  return retryAfterS === null || isWhole(retryAfterS, 0);
}

function isList(value: unknown, fits: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(fits);
}

const areIssues = (value: unknown): boolean =>
  isList(value, (issue) => isObject(issue) && isText(issue.path) && isText(issue.message));

const isTextOrNone = (value: unknown): boolean => value === undefined || isText(value);

/** Returns whether a header can contain the value. */
const isAscii = (value: unknown): boolean => isText(value) && /^[\x20-\x7e]*$/.test(value);
