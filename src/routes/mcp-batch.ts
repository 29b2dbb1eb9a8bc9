// A batch of JSON-RPC messages (MCP 2025-03-26): its requests run one after the other, and all successes pass
// calls/recheck.ts together when the last is done.

import { callOf } from '../calls/call.ts';
import type { Recheck } from '../calls/recheck.ts';
import type { Run } from '../calls/run.ts';
import { holdingOpen, type RequestContext } from '../http/context.ts';
import { err } from '../lib/result.ts';
import { legacyContext } from '../mcp/era.ts';
import { errorText, type Id, type Message, type RequestMessage, resultText } from '../mcp/message.ts';
import type { Methods } from '../mcp/methods.ts';
import { type CallOfMessage, callResultText, deniedError } from '../mcp/tool-result.ts';
import { OVERLOADED } from '../problem.ts';

/** Once the responses of a batch have this many characters, its other requests are refused and do not run. */
const BATCH_CHARS_MAX = 1024 * 1024;

interface BatchResponse {
  readonly id: Id | undefined;
  readonly text: string;
  readonly success?: CallOfMessage;
}

export interface BatchOptions {
  readonly methods: Methods;
  readonly run: Run;
  readonly recheck: Recheck;
}

/** Resolves to a JSON array of the responses; null if the batch has no request. */
export type RunBatch = (context: RequestContext, messages: readonly Message[]) => Promise<string | null>;

export function createRunBatch({ methods, run, recheck }: BatchOptions): RunBatch {
  async function batchResponse(
    context: RequestContext,
    message: RequestMessage,
    full: boolean,
  ): Promise<BatchResponse> {
    const { id } = message;
    const plan = methods.plan(message, legacyContext(context.headers));
    switch (plan.kind) {
      case 'result':
        return { id, text: full ? errorText(id, deniedError(OVERLOADED)) : resultText(id, plan.members) };
      case 'error':
        return { id, text: errorText(id, plan.error) };
      case 'call': {
        const { operation } = plan;
        const call = callOf(context, plan.metaApiKey, plan);
        const result = full ? err(OVERLOADED) : await run(operation, plan.input, call);
        const made: CallOfMessage = { id, era: 'legacy', operation, call };
        const text = callResultText(made, result);
        return result.ok ? { id, text, success: made } : { id, text };
      }
    }
  }

  /** One after the other: a hundred large responses at once could take all memory. */
  async function batchResponses(context: RequestContext, messages: readonly Message[]): Promise<BatchResponse[]> {
    const responses: BatchResponse[] = [];
    let chars = 0;
    for (const message of messages) {
      if (message.kind === 'invalid') responses.push({ id: message.id, text: errorText(message.id, message.error) });
      if (message.kind !== 'request') continue;
      const response = await batchResponse(context, message, chars >= BATCH_CHARS_MAX);
      chars += response.text.length;
      responses.push(response);
    }
    return responses;
  }

  return async (context, messages) => {
    const responses = await holdingOpen(context, Number.POSITIVE_INFINITY, batchResponses(context, messages));
    if (responses.length === 0) return null;
    const refused = await recheck(responses.flatMap(({ success }) => success?.call ?? []));
    const texts = responses.map(({ text, success }) => {
      const problem = success && refused.get(success.call);
      return success && problem ? callResultText(success, err(problem)) : text;
    });
    // No join, which copies: a text that finds no room is never flattened.
    const text = texts.reduce((all, text, index) => `${all}${index === 0 ? '' : ','}${text}`, '[');
    return `${text}]`;
  };
}
