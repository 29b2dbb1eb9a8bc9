// What a message asks for, as a pure plan: a result, an error, or a call to make.

import { type CallExtras, type Reader, withoutMeta } from '../calls/call.ts';
import type { Operation } from '../calls/operation.ts';
import { metaApiKey } from '../http/credentials.ts';
import { ok } from '../lib/result.ts';
import type { JsonObject } from '../lib/text.ts';
import { metaTrace } from '../lib/trace.ts';
import { showsWidgets } from './apps.ts';
import { askingOf, type RequestStates } from './asking.ts';
import type { MessageContext } from './era.ts';
import { CODES, type Params, type RpcError } from './message.ts';

export type ProgressToken = string | number;

export interface CallPlan extends CallExtras {
  readonly kind: 'call';
  readonly operation: Operation;
  readonly input: unknown;
  readonly metaApiKey: string | null;
  readonly progressToken: ProgressToken | undefined;
}

export type Plan =
  /** JSON text of the result object without its braces. */
  | { readonly kind: 'result'; readonly members: string }
  | { readonly kind: 'error'; readonly status: 200 | 400 | 404; readonly error: RpcError }
  | CallPlan;

export type Method = (params: Params, context: MessageContext) => Plan;

/** `given`: the input, which may have a `_meta` of its own. `states`: given if the operation may ask (2026-07-28). */
export function callPlan(
  operation: Operation,
  given: JsonObject,
  params: Params,
  { era, clientCapabilities }: MessageContext,
  states?: RequestStates,
): Plan {
  const { _meta: meta } = params;
  const asking = era === 'modern' && states !== undefined ? askingOf(states, params, clientCapabilities) : NOBODY;
  if (!asking.ok) return invalidParams(asking.error);
  return {
    kind: 'call',
    operation,
    input: withoutMeta(given),
    metaApiKey: metaApiKey(meta) ?? metaApiKey(given._meta),
    progressToken: progressTokenOf(meta),
    clientCapabilities,
    trace: metaTrace(meta) ?? metaTrace(given._meta),
    asking: asking.value,
    reader: readerOf(clientCapabilities),
  };
}

export const readerOf = (capabilities: unknown): Reader => (showsWidgets(capabilities) ? 'model_with_widget' : 'model');

const NOBODY = ok(undefined);

/** Each progress notification repeats the token, also one that is dropped. Clients send numbers and short names. */
const PROGRESS_TOKEN_CHARS_MAX = 1024;

/** A longer token is ignored: progress is optional (basic/utilities/progress). */
function progressTokenOf(meta: JsonObject | undefined): ProgressToken | undefined {
  const token = meta?.progressToken;
  if (typeof token === 'string') return token.length <= PROGRESS_TOKEN_CHARS_MAX ? token : undefined;
  return Number.isSafeInteger(token) ? (token as number) : undefined;
}

export const result = (members: string): Plan => ({ kind: 'result', members });

export const failed = (status: 200 | 400 | 404, code: number, message: string, data?: unknown): Plan => ({
  kind: 'error',
  status,
  error: { code, message, data },
});

export const invalidParams = (message: string): Plan => failed(200, CODES.invalidParams, message);

export const membersOf = (value: object): string => JSON.stringify(value).slice(1, -1);
