// Makes a response with a text as its body. A large one is encoded and handed out in pieces as the client reads, so that
// what is held for it is known, counts against the total for unread bytes, and is dropped when the client is too slow.

import type { RequestContext } from '../context.ts';
import { bytesInMemory, filled, readerOf } from './pieces.ts';
import type { SendBudget } from './send-budget.ts';

/** Texts up to this many characters are left to the runtime, which keeps them until they are sent. */
const SMALL_CHARS_MAX = 64 * 1024;
/** Handed to the runtime at a time. */
const PIECE_BYTES = 32 * 1024;

/** Null when there is no room for the text: nothing is sent then. The request is over when all of it was handed over. */
export type SendText = (context: Pick<RequestContext, 'extend'>, text: string, init: ResponseInit) => Response | null;

export function createSendText(budget: SendBudget): SendText {
  const inPieces: SendText = (context, text, init) => {
    const reader = readerOf(text);
    let stream: ReadableStreamDefaultController<Uint8Array> | undefined;
    const holding = budget.open(() => {
      stream?.error(new Error('the client reads too slowly'));
      end();
    });
    // To be measured, a text that was joined is put together, which takes as much memory again: not without room.
    if (!holding.set(text.length) || !holding.set(bytesInMemory(text))) {
      holding.release();
      return null;
    }
    const over = context.extend();
    function end(): void {
      stream = undefined;
      holding.release();
      over();
    }
    const body = new ReadableStream<Uint8Array>(
      {
        start(opened) {
          stream = opened;
        },
        pull(open) {
          const piece = new Uint8Array(PIECE_BYTES);
          const bytes = reader.readInto(piece);
          holding.read(bytes);
          open.enqueue(filled(piece, bytes));
          if (!reader.isAtEnd) return;
          open.close();
          end();
        },
        cancel: end,
      },
      new ByteLengthQueuingStrategy({ highWaterMark: 0 }), // nothing is taken out before it can be sent
    );
    return new Response(body, init);
  };

  return (context, text, init) =>
    text.length > SMALL_CHARS_MAX ? inPieces(context, text, init) : new Response(text, init);
}
