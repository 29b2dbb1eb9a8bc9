// Makes a response with a text as its body. A large one is encoded and handed out in pieces as the client reads, so that
// what is held for it is known, counts against the total for unread bytes, and is dropped when the client is too slow.

import { bytesInMemory } from '../../lib/text.ts';
import type { RequestContext } from '../context.ts';
import { openPacedBody } from './paced-body.ts';
import type { SendBudget } from './send-budget.ts';

/** Texts up to this length are left to the runtime, which keeps them until they are sent. */
const SMALL_CHARS_MAX = 64 * 1024;
const PIECE_BYTES = 32 * 1024;

/** Null, with nothing sent, when there is no room. The request is over when the whole text is handed over. */
export type SendText = (context: Pick<RequestContext, 'extend'>, text: string, init: ResponseInit) => Response | null;

export function createSendText(budget: SendBudget): SendText {
  const inPieces: SendText = (context, text, init) => {
    const lease = budget.lease(() => body.cut(new Error('the client reads too slowly')));
    // Measuring a concatenated text flattens it, which takes as much memory again: so first a lower bound.
    if (!lease.set(text.length) || !lease.set(bytesInMemory(text))) {
      lease.set(0);
      return null;
    }
    const over = context.extend();
    const body = openPacedBody({
      pieceBytes: PIECE_BYTES,
      onPiece: lease.read,
      onGone() {
        lease.set(0);
        over();
      },
    });
    body.put(text, lease.bytes);
    body.finish();
    return new Response(body.stream, init);
  };

  return (context, text, init) =>
    text.length > SMALL_CHARS_MAX ? inPieces(context, text, init) : new Response(text, init);
}
