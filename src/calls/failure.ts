// What a tool, prompt or guard may report: failures in a tool's own words, like
// `err(failure({ status: 502, code: 'orders_down', detail: 'The shop is closed' }))`, and whole problems.

import { isProblemCode, type Problem, type ProblemCode, type ToolFailure } from '../ground/problem.ts';
import { hasLength, isObject, type JsonObject } from '../ground/text.ts';
import { redactKeys } from '../watch/redact.ts';

export interface Failure {
  /** An HTTP status from 400 to 599. Not 401 and 407: they ask for credentials, which guards do. */
  readonly status: number;
  /** A name in snake_case, at most 64 characters, which is none of the server's codes. Callers may rely on it. */
  readonly code: string;
  /** One sentence for the caller, program or model: 1 to 1,000 characters. It should quote no input. */
  readonly detail: string;
  /** Whole seconds after which trying again may help; with 429 and 503. */
  readonly retryAfterS?: number;
}

const CODE = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;
const CODE_CHARS_MAX = 64;
const DETAIL_CHARS_MAX = 1000;
const ASKS_FOR_CREDENTIALS = [401, 407];
/** The statuses that take Retry-After (RFC 9110 §15.6.4, RFC 6585 §4). */
const RETRIED = [429, 503];

const isStatus = (status: unknown): status is number =>
  Number.isInteger(status) &&
  (status as number) >= 400 &&
  (status as number) <= 599 &&
  !ASKS_FOR_CREDENTIALS.includes(status as number);

/** Returns what was expected of an invalid failure; null if it is valid. The compiler does not check every tool. */
function failureFault({ status, code, detail, retryAfterS }: { readonly [Name in keyof Failure]?: unknown }) {
  if (!isStatus(status)) return `expected a status from 400 to 599 except 401 and 407, got ${status}`;
  if (typeof code !== 'string' || code.length > CODE_CHARS_MAX || !CODE.test(code)) {
    return `expected a code in snake_case of at most ${CODE_CHARS_MAX} characters`;
  }
  if (isProblemCode(code)) return `expected a code of the tool's own, ${code} is the server's`;
  if (typeof detail !== 'string' || !hasLength(detail, 1, DETAIL_CHARS_MAX)) {
    return `expected a detail of 1 to ${DETAIL_CHARS_MAX} characters`;
  }
  if (retryAfterS === undefined) return null;
  if (!RETRIED.includes(status)) return `expected retryAfterS only with 429 or 503, got ${status}`;
  if (Number.isSafeInteger(retryAfterS) && (retryAfterS as number) >= 0) return null;
  return `expected retryAfterS to be a whole number of seconds, got ${retryAfterS}`;
}

/** Creates a tool's failure. Throws an Error for an invalid one, which is a bug of the tool. */
export function failure(made: Failure): ToolFailure {
  const fault = failureFault(made);
  if (fault !== null) throw new Error(`failure: ${fault}`);
  const { status, code, detail, retryAfterS } = made;
  const base = { code: 'tool_failure', status, ownCode: code, detail: redactKeys(detail) } as const;
  return retryAfterS === undefined ? base : { ...base, retryAfterS };
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isNumber = (value: unknown): boolean => Number.isFinite(value);
const isListOf = (value: unknown, fits: (one: unknown) => boolean): boolean =>
  Array.isArray(value) && value.every(fits);
const isIssue = (value: unknown): boolean => isObject(value) && isText(value.path) && isText(value.message);
const isTime = (value: unknown): boolean => isNumber(value) && !Number.isNaN(new Date(value as number).getTime());
/** Returns whether the value is a text that a header can hold. */
const isAscii = (value: unknown): boolean => isText(value) && /^[\x20-\x7e]*$/.test(value);

const isLimitState = (value: unknown): boolean =>
  isObject(value) &&
  isText(value.name) &&
  isObject(value.limit) &&
  [value.limit.requests, value.limit.windowS, value.remaining, value.resetS].every(isNumber);

const isCountOrNull = (value: unknown): boolean => value === null || isCount(value);

const NEEDS: { readonly [Code in ProblemCode]?: (problem: JsonObject) => boolean } = {
  invalid_input: ({ issues, detail }) => issues !== undefined && (detail === undefined || isText(detail)),
  invalid_response: ({ issues }) => issues !== undefined,
  internal: () => false, // a bug is thrown: the log says what went wrong
  insufficient_scope: ({ required }) => isListOf(required, isAscii),
  scope_not_granted: ({ grantable }) => isListOf(grantable, isText),
  method_not_allowed: ({ allow }) => isAscii(allow),
  rotation_under_way: ({ untilMs }) => isTime(untilMs),
  rate_limited: ({ retryAfterS, limits = [] }) => isCountOrNull(retryAfterS) && isListOf(limits, isLimitState),
  quota_exceeded: ({ retryAfterS, limits = [] }) => isCountOrNull(retryAfterS) && isListOf(limits, isLimitState),
  tool_failure: ({ status, ownCode, detail, retryAfterS }) =>
    failureFault({ status, code: ownCode, detail, retryAfterS }) === null,
};

/**
 * Returns whether an untyped error is a problem with all that its code needs. Writing its response would throw
 * otherwise.
 */
export function isProblem(value: unknown): value is Problem {
  if (!isObject(value) || !isText(value.code) || !isProblemCode(value.code)) return false;
  const { code, issues, sent, help } = value;
  if (issues !== undefined && !isListOf(issues, isIssue)) return false;
  if (sent !== undefined && sent !== 'api_key' && sent !== 'user_token') return false;
  if (help !== undefined && !isText(help)) return false;
  return NEEDS[code as ProblemCode]?.(value) ?? true;
}
