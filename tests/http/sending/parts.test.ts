// Texts in parts: what is read of them piece by piece is the whole, whatever the size of the pieces.

import { expect, test } from 'bun:test';
import {
  bytesInMemory,
  bytesInMemoryMax,
  filled,
  type Part,
  Quoted,
  readerOf,
} from '../../../src/http/sending/parts.ts';

const ALL_KINDS = 'xü€🔑"\\\n\u2028x🔑';
const utf8 = (text: string) => new TextEncoder().encode(text);
const JSON_TEXT = JSON.stringify({ [ALL_KINDS]: [ALL_KINDS, 1, null], '': '\u0001\ud800' });

/** Read in pieces of that many bytes. */
function readOf(parts: readonly Part[], pieceBytes: number): string {
  const reader = readerOf(parts);
  const pieces: Uint8Array[] = [];
  while (!reader.isAtEnd) {
    const piece = new Uint8Array(pieceBytes);
    const bytes = reader.readInto(piece);
    expect(bytes).toBeWithin(reader.isAtEnd ? 0 : pieceBytes - 3, pieceBytes + 1);
    pieces.push(filled(piece, bytes));
  }
  return new TextDecoder().decode(Buffer.concat(pieces));
}

test.each([4, 5, 6, 7, 8, 16, 1000])('a text is read whole in pieces of %d bytes', (pieceBytes) => {
  const parts = ['', ALL_KINDS, utf8(ALL_KINDS), '', new Uint8Array(), 'y', ALL_KINDS, ''];
  expect(readOf(parts, pieceBytes)).toBe(`${ALL_KINDS}${ALL_KINDS}y${ALL_KINDS}`);
});

test.each([4, 5, 6, 7, 8, 16, 1000])('JSON is read as the inside of a string in pieces of %d bytes', (pieceBytes) => {
  const read = readOf(['"', new Quoted(utf8(JSON_TEXT)), '"'], pieceBytes);
  expect(read).toBe(JSON.stringify(JSON_TEXT));
});

test('a text is counted as it lies in memory: two bytes a character if one needs them, shared bytes once', () => {
  const bytes = utf8(ALL_KINDS);
  expect(bytesInMemory('ü'.repeat(10))).toBe(10);
  expect(bytesInMemory('€'.repeat(10))).toBe(20);
  expect(bytesInMemory([bytes, new Quoted(bytes), 'x'])).toBe(bytes.length + 1);
  expect(bytesInMemoryMax([bytes, new Quoted(bytes), 'x'])).toBe(bytes.length + 2);
});
