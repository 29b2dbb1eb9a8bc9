// Redacts secrets in text that must be repeated: log lines, and what errors echo to callers and operators.

import { withoutControls } from '../ground/text.ts';

/**
 * A JWT, or its first two parts. It also matches an `eyJ…` without a dot, and keeps it: otherwise the search for the dot
 * would restart at every `eyJ`, and a body can hold 300,000 of them.
 */
const TOKEN = /eyJ[\w-]{8,}(\.[\w-]+\.?[\w-]*)?/g;
/** The same for issuers that put white space after braces. Words begin like this, so the second part must as well. */
const SPACED_TOKEN = /e(?:yA|w[0ko])[\w-]{8,}(\.e(?:yA|w[0ko])[\w-]+\.?[\w-]*)?/g;
const KEY = /sk_(?:live|test)_[0-9A-Za-z]{6,}/g;
/** Finds a key with any prefix. The prefix is not secret, and matching it too would cost each line 40 times as much. */
const KEY_WITHOUT_PREFIX = /_(?:live|test)_[0-9a-f]{16,}/gi;
const HASH = /\b[0-9a-f]{64}\b/g;
const HASH_DIGITS = /[0-9a-f]{64}/;
const REDACTED = '[redacted]';

/** Recently presented keys of another form, as they are and escaped for JSON; the oldest first. */
const foreign = new Map<string, readonly string[]>();
/** Each costs a search of every line: some 5 µs in 64 KB. */
const FOREIGN_MAX = 200;

/** Redacts a presented key of another form, which no pattern matches, from now on. */
export function redactFrom(key: string): void {
  const forms = foreign.get(key) ?? [...new Set([key, JSON.stringify(key).slice(1, -1)])];
  foreign.delete(key);
  foreign.set(key, forms);
  const [oldest] = foreign.keys();
  if (foreign.size > FOREIGN_MAX && oldest !== undefined) foreign.delete(oldest);
}

/** Returns whether there are keys to redact that no pattern matches. */
export const redactsForeign = (): boolean => foreign.size > 0;

function withoutForeign(text: string): string {
  let left = text;
  const plain = foreign.size > 0 ? decoded(text, PRINTABLE) : text;
  for (const [key, forms] of foreign) {
    for (const form of forms) left = left.replaceAll(form, REDACTED);
    if (plain.includes(key)) left = left.replace(encodedPattern(key), REDACTED);
  }
  return left;
}

/** Returns a pattern for an ASCII text with any of its characters percent-encoded. */
function encodedPattern(text: string): RegExp {
  const hexOf = (character: string) => character.charCodeAt(0).toString(16);
  const inAnyCase = (hex: string) => hex.replace(/[a-f]/, (digit) => `[${digit}${digit.toUpperCase()}]`);
  return new RegExp(
    text.replace(/./g, (one) => `(?:\\x${hexOf(one)}|%${inAnyCase(hexOf(one))})`),
    'g',
  );
}

/** Percent-encoded printable ASCII. */
const PRINTABLE = /%(?:[2-6][\da-f]|7[\da-e])/gi;
/** Percent-encoded unreserved characters (RFC 3986 §2.3), of which keys and tokens consist; and `%`, for double encoding. */
const UNRESERVED = /%(?:2[5de]|3\d|4[1-9a-f]|5[\daf]|6[1-9a-f]|7[\da])/gi;
const ENCODINGS_MAX = 3;
/** Longer texts are not decoded, to save time. */
const ENCODED_CHARS_MAX = 32 * 1024;

function decoded(text: string, which: RegExp): string {
  if (text.length > ENCODED_CHARS_MAX) return text;
  let left = text;
  for (let times = 0; times < ENCODINGS_MAX && left.includes('%'); times += 1) {
    left = left.replace(which, (found) => String.fromCharCode(Number.parseInt(found.slice(1), 16)));
  }
  return left;
}

const ifWhole = (found: string, rest?: string) => (rest === undefined ? found : REDACTED);

const withoutPlainKeys = (text: string): string =>
  withoutForeign(text)
    .replace(TOKEN, ifWhole)
    .replace(SPACED_TOKEN, ifWhole)
    .replace(KEY, REDACTED)
    .replace(KEY_WITHOUT_PREFIX, REDACTED);

/** Returns the text without keys and tokens. Decodes it if one was percent-encoded, in a way that keeps JSON valid. */
export function redactKeys(text: string): string {
  const left = withoutPlainKeys(text);
  const plain = decoded(left, UNRESERVED);
  if (plain === left) return left;
  const clear = withoutPlainKeys(plain);
  return clear === plain ? left : clear;
}

/** Returns whether there may be a hash in the text, even when it is JSON. */
export const hasHash = (text: string): boolean => HASH_DIGITS.test(text);

export const redactHashes = (text: string): string => text.replace(HASH, REDACTED);

/** Returns the text without anything that looks like a secret. */
export const redact = (text: string): string => redactHashes(redactKeys(text));

const EXCERPT_CHARS_MAX = 100;

/**
 * Returns what the log may show of a stranger's text: that many code points of valid Unicode, as readers of JSON refuse a
 * whole document for half a character. Redacts before truncating, as no pattern matches half a hash.
 */
export function excerptOf(text: string, charsMax = EXCERPT_CHARS_MAX): string {
  const shown = redact(withoutControls(text)).slice(0, 2 * charsMax); // a code point has at most two units
  return [...shown].slice(0, charsMax).join('').toWellFormed();
}
