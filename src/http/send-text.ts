// Makes a response with a text as its body. A large one is encoded and handed out in pieces as the client reads, so that
// what is held for it is known, counts against the budget for unread bytes, and is dropped when the client is too slow.

import { bytesInMemory, type SendBudget } from './send-budget.ts';

/** Texts up to this many characters are left to the runtime, which keeps them until they are sent. */
const SMALL_CHARS_MAX = 64 * 1024;
/** Handed to the runtime at a time. */
const PIECE_CHARS = 32 * 1024;

/**
 * Takes a text, or the parts of one. Null when the budget has no room for it: nothing is sent then. `onSent` runs once,
 * also then: when the last piece has been handed over, or the client is gone or was cut off. For a small text it runs at
 * once.
 */
export type SendText = (
  text: string | readonly string[],
  init: ResponseInit,
  onSent?: (() => void) | undefined,
) => Response | null;

const NOTHING = () => {};

export function createSendText(budget: SendBudget): SendText {
  const utf8 = new TextEncoder();

  function inPieces(parts: readonly string[], chars: number, init: ResponseInit, onSent: () => void): Response | null {
    const nextPiece = piecesOf(parts);
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
    // As many bytes as they may have: to count them, the parts are put together, and not for a text without room.
    if (!holding.set(2 * chars)) {
      onSent();
      return null;
    }
    holding.set(parts.reduce((sum, part) => sum + bytesInMemory(part), 0));
    const body = new ReadableStream<Uint8Array>(
      {
        start(opened) {
          stream = opened;
        },
        pull(open) {
          const { piece, isLast } = nextPiece();
          const bytes = utf8.encode(piece);
          holding.read(bytes.length);
          open.enqueue(bytes);
          if (!isLast) return;
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
    const chars = typeof text === 'string' ? text.length : text.reduce((sum, { length }) => sum + length, 0);
    if (chars > SMALL_CHARS_MAX) return inPieces(typeof text === 'string' ? [text] : text, chars, init, onSent);
    onSent();
    return new Response(typeof text === 'string' ? text : text.join(''), init);
  };
}

/** Returns a function that returns the next piece of the whole text, each time it is called. */
function piecesOf(parts: readonly string[]) {
  let at = 0; // which part
  let from = 0; // which character of it
  return () => {
    let piece = '';
    for (let part = parts[at]; part !== undefined && piece.length < PIECE_CHARS; part = parts[at]) {
      const end = endOfPiece(part, from + PIECE_CHARS - piece.length);
      piece += part.slice(from, end);
      from = end;
      if (from < part.length) continue;
      at += 1;
      from = 0;
    }
    return { piece, isLast: at === parts.length };
  };
}

/** Not between the two halves of a character. */
const endOfPiece = (text: string, end: number): number =>
  end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800 ? end + 1 : Math.min(end, text.length);
