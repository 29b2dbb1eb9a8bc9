// Makes a response with a text as its body. A large one is handed out in pieces as the client reads, so that what is
// held for it is known, counts against the budget for unread bytes, and is dropped when the client is too slow.

import type { SendBudget } from './send-budget.ts';

/** Texts up to this many characters are left to the runtime, which keeps them until they are sent. */
const SMALL_CHARS_MAX = 64 * 1024;
/** Handed to the runtime at a time. */
const PIECE_BYTES = 64 * 1024;

/**
 * Null when the budget has no room for the text: nothing is sent then. `onSent` runs once, also then: when the last
 * piece has been handed over, or the client is gone or was cut off. For a small text it runs at once.
 */
export type SendText = (text: string, init: ResponseInit, onSent?: (() => void) | undefined) => Response | null;

const NOTHING = () => {};

export function createSendText(budget: SendBudget): SendText {
  const utf8 = new TextEncoder();

  function inPieces(bytes: Uint8Array, init: ResponseInit, onSent: () => void): Response | null {
    let at = 0;
    let stream: ReadableStreamDefaultController<Uint8Array> | undefined;
    const holding = budget.open(() => {
      stream?.error(new Error('the client reads too slowly'));
      end();
    });
    function end(): void {
      if (stream === undefined) return;
      stream = undefined;
      holding.release();
      onSent();
    }
    if (!holding.set(bytes.length)) {
      onSent();
      return null;
    }
    const body = new ReadableStream<Uint8Array>(
      {
        start(opened) {
          stream = opened;
        },
        pull(open) {
          open.enqueue(bytes.subarray(at, at + PIECE_BYTES));
          at += PIECE_BYTES;
          holding.set(Math.max(0, bytes.length - at));
          if (at < bytes.length) return;
          open.close();
          end();
        },
        cancel: end,
      },
      new ByteLengthQueuingStrategy({ highWaterMark: 0 }), // nothing is taken out before it can be sent
    );
    return new Response(body, init);
  }

  return (text, init, onSent = NOTHING) => {
    if (text.length > SMALL_CHARS_MAX) return inPieces(utf8.encode(text), init, onSent);
    onSent();
    return new Response(text, init);
  };
}
