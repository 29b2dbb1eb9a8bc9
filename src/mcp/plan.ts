// What a message asks for, as a pure plan: a result, an error, or a call to make.

import { metaApiKey } from '../http/credentials.ts';
import type { JsonObject } from '../lib/text.ts';
import { metaTrace, type Trace } from '../lib/trace.ts';
import { withoutMeta } from '../tools/core/call.ts';
import type { Operation } from '../tools/core/operation.ts';
import type { MessageContext } from './era.ts';
import { CODES, type Params, type RpcError } from './message.ts';

export type ProgressToken = string | number;

/** A call to make, of a tool or a prompt: what the message asks for. */
export interface CallPlan {
  readonly kind: 'call';
  readonly operation: Operation;
  readonly input: unknown;
  readonly metaApiKey: string | null;
  readonly progressToken: ProgressToken | undefined;
  readonly clientCapabilities: JsonObject;
  readonly trace: Trace | undefined;
}

export type Plan =
  /** The members of the result object, as JSON text without the braces. */
  | { readonly kind: 'result'; readonly members: string }
  | { readonly kind: 'error'; readonly status: 200 | 400 | 404; readonly error: RpcError }
  | CallPlan;

/** Plans what a method does. */
export type Method = (params: Params, context: MessageContext) => Plan;

/** `given`: the input, which may carry a `_meta` of its own. */
export function callPlan(
  operation: Operation,
  given: JsonObject,
  { _meta: meta }: Params,
  { clientCapabilities }: MessageContext,
): CallPlan {
  const input = withoutMeta(given);
  return {
    kind: 'call',
    operation,
    input: input.fields,
    metaApiKey: metaApiKey(meta) ?? metaApiKey(input.meta),
    progressToken: progressTokenOf(meta),
    clientCapabilities,
    trace: metaTrace(meta) ?? metaTrace(input.meta),
  };
}

function progressTokenOf(meta: JsonObject | undefined): ProgressToken | undefined {
  const token = meta?.progressToken;
  return typeof token === 'string' || Number.isSafeInteger(token) ? (token as ProgressToken) : undefined;
}

export const result = (members: string): Plan => ({ kind: 'result', members });

export const failed = (status: 200 | 400 | 404, code: number, message: string, data?: unknown): Plan => ({
  kind: 'error',
  status,
  error: { code, message, data },
});

export const invalidParams = (message: string): Plan => failed(200, CODES.invalidParams, message);

export const membersOf = (value: object): string => JSON.stringify(value).slice(1, -1);
