// Failures in a tool's own words: `err(failure({ status: 502, code: 'orders_down', detail: 'The shop is closed' }))`.

import { hasLength } from '../../lib/text.ts';
import { redactKeys } from '../../log/redact.ts';
import { isProblemCode, type ToolFailure } from '../../problem.ts';

export interface Failure {
  /** An HTTP status from 400 to 599. Not 401 and 407: they ask for credentials, which guards do. */
  readonly status: number;
  /** In snake_case, at most 64 characters; none of the server's codes. Callers may rely on it. */
  readonly code: string;
  /** One sentence for the caller of the tool, program or model: 1 to 1,000 characters. It should quote no input. */
  readonly detail: string;
  /** Whole seconds after which trying again may help; with 429 and 503. */
  readonly retryAfterS?: number;
}

const CODE = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;
const CODE_CHARS_MAX = 64;
const DETAIL_CHARS_MAX = 1000;
const ASKS_FOR_CREDENTIALS = [401, 407];
/** Retry-After is for these (RFC 9110 §15.6.4, RFC 6585 §4). */
const RETRIED = [429, 503];

/** Whether a failure in a tool's own words may have it. */
export const isFailureStatus = (status: unknown): boolean =>
  Number.isInteger(status) &&
  (status as number) >= 400 &&
  (status as number) <= 599 &&
  !ASKS_FOR_CREDENTIALS.includes(status as number);

/** Throws an Error, a bug of the tool, for a failure that can't be reported. */
export function failure({ status, code, detail, retryAfterS }: Failure): ToolFailure {
  if (!isFailureStatus(status)) {
    throw new Error(`failure: expected a status from 400 to 599 except 401 and 407, got ${status}`);
  }
  if (typeof code !== 'string' || code.length > CODE_CHARS_MAX || !CODE.test(code)) {
    throw new Error(`failure: expected a code in snake_case of at most ${CODE_CHARS_MAX} characters`);
  }
  if (isProblemCode(code)) throw new Error(`failure: expected a code of the tool's own, ${code} is the server's`);
  if (typeof detail !== 'string' || !hasLength(detail, 1, DETAIL_CHARS_MAX)) {
    throw new Error(`failure: expected a detail of 1 to ${DETAIL_CHARS_MAX} characters`);
  }
  const base = { code: 'tool_failure', status, ownCode: code, detail: redactKeys(detail) } as const;
  if (retryAfterS === undefined) return base;
  if (!RETRIED.includes(status)) throw new Error(`failure: expected retryAfterS only with 429 or 503, got ${status}`);
  if (!Number.isSafeInteger(retryAfterS) || retryAfterS < 0) {
    throw new Error(`failure: expected retryAfterS to be a whole number of seconds, got ${retryAfterS}`);
  }
  return { ...base, retryAfterS };
}
