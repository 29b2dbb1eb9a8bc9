// What waits to be sent on one event stream: texts, handed out as UTF-8 in pieces.

import { filled, readerOf, type TextReader, type Utf8 } from './pieces.ts';

/** Handed to the runtime at a time. Of larger pieces, Deno takes more bytes than a client reads. */
const PIECE_BYTES = 8 * 1024;

interface Waiting {
  readonly reader: TextReader;
  /** What it takes of the memory. */
  readonly bytes: number;
}

export interface SendQueue {
  put(text: string, bytes: number): void;
  /** As much as fits into a piece; an empty one only from an empty queue. */
  nextPiece(): Utf8;
  clear(): void;
  /** Of all texts that are not handed out to their ends. */
  readonly bytes: number;
  readonly isEmpty: boolean;
}

export function createSendQueue(): SendQueue {
  let queue: Waiting[] = [];
  let queuedBytes = 0;
  return {
    put(text, bytes) {
      queue.push({ reader: readerOf(text), bytes });
      queuedBytes += bytes;
    },
    nextPiece() {
      const piece = new Uint8Array(Math.min(PIECE_BYTES, 3 * queuedBytes)); // a character has at most three bytes
      let length = 0;
      for (let [first] = queue; first !== undefined; [first] = queue) {
        length += first.reader.readInto(piece.subarray(length));
        if (!first.reader.isAtEnd) break; // the piece is full
        queue.shift();
        queuedBytes -= first.bytes;
      }
      return filled(piece, length);
    },
    clear() {
      queue = [];
      queuedBytes = 0;
    },
    get bytes() {
      return queuedBytes;
    },
    get isEmpty() {
      return queue.length === 0;
    },
  };
}
