// Text to send, whole or in parts, of which some may be UTF-8 already: a long list is encoded while it is read. Hands it
// out piece by piece, so that there is never a second copy of it.

/** Text as UTF-8. */
export type Utf8 = Uint8Array<ArrayBuffer>;

/** JSON text, for the inside of a JSON string: it is escaped when it is sent. */
export class Quoted {
  constructor(readonly json: Utf8) {}
}

export type Part = string | Utf8 | Quoted;
export type Text = string | readonly Part[];

export const partsOf = (text: Text): readonly Part[] => (typeof text === 'string' ? [text] : text);

/** Longer strings are not put together with others, which would copy them. */
const JOINED_CHARS_MAX = 64 * 1024;

export const wrapped = (before: string, text: Text, after: string): Text =>
  typeof text === 'string' && text.length <= JOINED_CHARS_MAX
    ? before + text + after
    : [before, ...partsOf(text), after];

/** At most the bytes that it has when it is sent. */
export const lengthOf = (text: Text): number =>
  typeof text === 'string' ? text.length : text.reduce((sum, part) => sum + sourceOf(part).length, 0);

/** A string has one byte for each character in memory, or two if one of them needs two. */
export const bytesInMemory = (text: Text): number =>
  bytesHeld(text, (string) => (WIDE.test(string) ? 2 : 1) * string.length);
const WIDE = /[^\0-\xff]/;

/** The same or more, without a look at strings that were joined but not put together yet. */
export const bytesInMemoryMax = (text: Text): number => bytesHeld(text, ({ length }) => 2 * length);

/** What is quoted counts nothing: the same bytes stand in the text once more. */
const bytesHeld = (text: Text, bytesOf: (string: string) => number): number =>
  partsOf(text).reduce((sum, part) => {
    if (typeof part === 'string') return sum + bytesOf(part);
    return part instanceof Quoted ? sum : sum + part.length;
  }, 0);

/**
 * Gives back the memory of the parts that are UTF-8: the collector would leave it for long, once it is old. The text must
 * not be read any more.
 */
export function free(text: Text): void {
  for (const part of partsOf(text)) if (part instanceof Uint8Array) part.buffer.transfer(0);
}

const sourceOf = (part: Part): string | Utf8 => (part instanceof Quoted ? part.json : part);

export interface TextReader {
  /** Writes what comes next, as UTF-8, and returns how many bytes. Less than there is room for only at a character. */
  readInto(piece: Utf8): number;
  readonly isAtEnd: boolean;
}

export function readerOf(parts: readonly Part[]): TextReader {
  let at = 0; // which part
  let from = 0; // which character or byte of it
  return {
    readInto(piece) {
      let length = 0;
      for (let part = parts[at]; part !== undefined; part = parts[at]) {
        const { read, written } = copy(part, from, piece.subarray(length));
        length += written;
        from += read;
        if (from < sourceOf(part).length) break; // the piece is full
        at += 1;
        from = 0;
      }
      return length;
    },
    get isAtEnd() {
      return at === parts.length;
    },
  };
}

interface Copied {
  /** Characters or bytes. */
  readonly read: number;
  readonly written: number;
}

const utf8 = new TextEncoder();

function copy(part: Part, from: number, into: Utf8): Copied {
  if (part instanceof Quoted) return escapeInto(part.json, from, into);
  // Half a character at the end of the slice finds no room, after all others.
  if (typeof part === 'string') return utf8.encodeInto(part.slice(from, from + into.length), into);
  const copied = part.subarray(from, from + into.length);
  into.set(copied);
  return { read: copied.length, written: copied.length };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** In JSON text nothing else needs it: what does was escaped before, and begins with a backslash. */
function escapeInto(json: Utf8, from: number, into: Utf8): Copied {
  let at = from;
  let written = 0;
  for (let byte = json[at]; byte !== undefined; byte = json[at]) {
    const isEscaped = byte === QUOTE || byte === BACKSLASH;
    if (written + (isEscaped ? 2 : 1) > into.length) break;
    if (isEscaped) into[written++] = BACKSLASH;
    into[written++] = byte;
    at += 1;
  }
  return { read: at - from, written };
}

/** A piece as large as what is in it, unless that is nearly all of it. */
export const filled = (piece: Utf8, bytes: number): Utf8 =>
  bytes > piece.length / 2 ? piece.subarray(0, bytes) : piece.slice(0, bytes);
