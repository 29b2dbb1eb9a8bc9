// Runs a batch of JSON-RPC messages (2025-03-26 and before), one after the other. All replies leave together at the
// end.

import type { Call } from '../calls/call.ts';
import type { Sender } from '../calls/identify.ts';
import type { Recheck } from '../calls/proof.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import { holdingOpen } from '../web/context.ts';
import { problemResponse } from '../web/problem-response.ts';
import { NO_CAPABILITIES } from './era.ts';
import { accepted, type HttpReplies } from './http-replies.ts';
import { errorText, type Message } from './message.ts';
import { deniedText } from './results.ts';
import type { Mcp, Peer } from './server.ts';

export interface BatchOptions {
  readonly mcp: Mcp;
  readonly recheck: Recheck;
  readonly replies: HttpReplies;
}

interface BatchReply {
  readonly text: string;
  /** The call that the message made; `denied` returns the text that replaces its reply if it is refused. */
  readonly call?: Call | undefined;
  readonly denied?: (problem: Problem) => string;
}

/** Once the replies have this many characters, the batch's other requests are refused without running. */
const BATCH_CHARS_MAX = 1024 * 1024;

export function createBatch({ mcp, recheck, replies }: BatchOptions) {
  /** Runs the messages one after the other, because a hundred large replies at once could exhaust the memory. */
  async function run(sender: Sender, messages: readonly Message[]): Promise<BatchReply[]> {
    const peer: Peer = { sender, era: 'legacy', capabilities: NO_CAPABILITIES, signIn: null };
    const made: BatchReply[] = [];
    let chars = 0;
    for (const message of messages) {
      if (message.kind === 'invalid') made.push({ text: errorText(message.id, message.error) });
      if (message.kind !== 'request') continue;
      const denied = (problem: Problem) => deniedText(message, 'legacy', problem);
      const { text, call } =
        chars < BATCH_CHARS_MAX ? await mcp(message, peer) : { text: denied(OVERLOADED), call: undefined };
      chars += text.length;
      made.push({ text, call, denied });
    }
    return made;
  }

  return async (sender: Sender, messages: readonly Message[]): Promise<Response> => {
    const { context } = sender;
    const made = await holdingOpen(context, Number.POSITIVE_INFINITY, run(sender, messages));
    if (made.length === 0) return accepted();
    const refused = await recheck(made.flatMap(({ call }) => call ?? [])); // by now a proof may be stale
    // Not join, which copies: a text without room is never flattened.
    const text = made.reduce((all, { text, call, denied }, index) => {
      const problem = call && refused.get(call);
      return `${all}${index === 0 ? '' : ','}${problem && denied ? denied(problem) : text}`;
    }, '[');
    return replies.write(context, `${text}]`) ?? problemResponse(OVERLOADED, context.requestId);
  };
}
