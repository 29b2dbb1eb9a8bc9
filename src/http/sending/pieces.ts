// Hands a text out as UTF-8, piece by piece, so that there is never a second copy of it.

/** Text as UTF-8. */
export type Utf8 = Uint8Array<ArrayBuffer>;

const utf8 = new TextEncoder();

export interface TextReader {
  /** Writes what comes next, and returns how many bytes. Less than there is room for only at a character, or at the end. */
  readInto(piece: Utf8): number;
  readonly isAtEnd: boolean;
}

export function readerOf(text: string): TextReader {
  let from = 0;
  return {
    readInto(piece) {
      // Half a character at the end of the slice finds no room, after all others.
      const { read, written } = utf8.encodeInto(text.slice(from, from + piece.length), piece);
      from += read;
      return written;
    },
    get isAtEnd() {
      return from === text.length;
    },
  };
}

/** A piece as large as what is in it, unless that is nearly all of it. */
export const filled = (piece: Utf8, bytes: number): Utf8 =>
  bytes > piece.length / 2 ? piece.subarray(0, bytes) : piece.slice(0, bytes);

const WIDE = /[^\0-\xff]/;

/** A string has one byte for each character in memory, or two if one of them needs two. */
export const bytesInMemory = (text: string): number => (WIDE.test(text) ? 2 : 1) * text.length;
