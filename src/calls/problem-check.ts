// Whether what a tool, prompt or guard without types reports is a problem: with what each code must have, or the response
// could not be written, and would fail the batch that it is in.

import { isObject, type JsonObject } from '../lib/text.ts';
import { isProblemCode, type Problem, type ProblemCode } from '../problem.ts';
import { failureFault } from './failure.ts';

const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isNumber = (value: unknown): boolean => Number.isFinite(value);
const isListOf = (value: unknown, fits: (one: unknown) => boolean): boolean =>
  Array.isArray(value) && value.every(fits);
const isIssue = (value: unknown): boolean => isObject(value) && isText(value.path) && isText(value.message);
const isTime = (value: unknown): boolean => isNumber(value) && !Number.isNaN(new Date(value as number).getTime());
/** For a header. */
const isAscii = (value: unknown): boolean => isText(value) && /^[\x20-\x7e]*$/.test(value);

const isRateLimit = (value: unknown): boolean =>
  isObject(value) &&
  isObject(value.limit) &&
  [value.limit.requests, value.limit.windowS, value.remaining, value.resetS].every(isNumber);

/** What these codes must have. */
const NEEDS: { readonly [Code in ProblemCode]?: (problem: JsonObject) => boolean } = {
  invalid_input: ({ issues, detail }) => issues !== undefined && (detail === undefined || isText(detail)),
  invalid_response: ({ issues }) => issues !== undefined,
  insufficient_scope: ({ required }) => isListOf(required, isAscii),
  scope_not_granted: ({ grantable }) => isListOf(grantable, isText),
  method_not_allowed: ({ allow }) => isAscii(allow),
  rotation_under_way: ({ untilMs }) => isTime(untilMs),
  rate_limited: ({ retryAfterS, rateLimit }) =>
    isCount(retryAfterS) && (rateLimit === undefined || isRateLimit(rateLimit)),
  quota_exceeded: ({ retryAfterS, rateLimit }) =>
    isCount(retryAfterS) && (rateLimit === undefined || isRateLimit(rateLimit)),
  tool_failure: ({ status, ownCode, detail, retryAfterS }) =>
    failureFault({ status, code: ownCode, detail, retryAfterS }) === null,
};

export function isProblem(value: unknown): value is Problem {
  if (!isObject(value) || !isText(value.code) || !isProblemCode(value.code)) return false;
  const { code, issues, sent } = value;
  if (issues !== undefined && !isListOf(issues, isIssue)) return false;
  if (sent !== undefined && sent !== 'api_key' && sent !== 'user_token') return false;
  return NEEDS[code as ProblemCode]?.(value) ?? true;
}
