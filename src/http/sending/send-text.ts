// Makes a response with a text as its body. A large one is encoded and handed out in pieces as the client reads, so that
// what is held for it is known, counts against the budget for unread bytes, and is dropped when the client is too slow.

import { bytesInMemory, bytesInMemoryMax, filled, lengthOf, partsOf, readerOf, type Text } from './parts.ts';
import type { SendBudget } from './send-budget.ts';

/** Texts up to this many characters are left to the runtime, which keeps them until they are sent. */
const SMALL_CHARS_MAX = 64 * 1024;
/** Handed to the runtime at a time. */
const PIECE_BYTES = 32 * 1024;

/**
 * Null when the budget has no room for the text: nothing is sent then. `onSent` runs once, also then: when the last piece
 * has been handed over, or the client is gone or was cut off. For a small text it runs at once.
 */
export type SendText = (text: Text, init: ResponseInit, onSent?: (() => void) | undefined) => Response | null;

const NOTHING = () => {};

export function createSendText(budget: SendBudget): SendText {
  function inPieces(text: Text, init: ResponseInit, onSent: () => void): Response | null {
    const reader = readerOf(partsOf(text));
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
    // To count exactly, strings are put together, which isn't done for a text without room.
    if (!holding.set(bytesInMemoryMax(text))) {
      onSent();
      return null;
    }
    holding.set(bytesInMemory(text));
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
  }

  return (text, init, onSent = NOTHING) => {
    const small = smallText(text);
    if (small === null) return inPieces(text, init, onSent);
    onSent();
    return new Response(small, init);
  };
}

/** Null when it is large, or has parts that are encoded. */
function smallText(text: Text): string | null {
  if (lengthOf(text) > SMALL_CHARS_MAX) return null;
  if (typeof text === 'string') return text;
  return text.every((part) => typeof part === 'string') ? text.join('') : null;
}
