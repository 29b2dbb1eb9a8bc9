// Text as UTF-8 in pieces that are freed one by one: what a client has read takes no memory while it reads the rest.

/** Handed to the runtime at a time. */
export const PIECE_BYTES = 16 * 1024;

const utf8 = new TextEncoder();

/** UTF-8 takes at most three bytes for a UTF-16 code unit. */
const ONE_PIECE_CHARS_MAX = Math.floor(PIECE_BYTES / 3);

export function encodePieces(text: string): Uint8Array<ArrayBuffer>[] {
  if (text.length <= ONE_PIECE_CHARS_MAX) return [utf8.encode(text)];
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  for (let at = 0; at < text.length; ) {
    const piece = new Uint8Array(PIECE_BYTES);
    const { read, written } = utf8.encodeInto(text.slice(at), piece); // never half a character
    // A part of a piece would keep the whole piece in memory.
    pieces.push(at + read === text.length ? piece.slice(0, written) : piece.subarray(0, written));
    at += read;
  }
  return pieces;
}
