// Takes secrets out of text that has to be repeated: log lines, and what errors echo to callers and operators.

import { withoutControls } from '../ground/text.ts';

/**
 * A JWT, or its first two parts. An `eyJ…` without a dot is matched too, and put back: otherwise the search for the dot
 * would begin anew at every `eyJ`, and a body can hold 300,000 of them.
 */
const TOKEN = /eyJ[\w-]{8,}(\.[\w-]+\.?[\w-]*)?/g;
const KEY = /sk_(?:live|test)_[0-9A-Za-z]{6,}/g;
/**
 * Finds a key with any prefix. The prefix is not secret, and matching it too would cost every line 40 times as much.
 */
const KEY_WITHOUT_PREFIX = /_(?:live|test)_[0-9A-Fa-f]{16,}/g;
const HASH = /\b[0-9a-f]{64}\b/g;
const HASH_DIGITS = /[0-9a-f]{64}/;
const REDACTED = '[redacted]';

/** Keys of another form that were presented of late, as they are and as JSON has them; the oldest first. */
const foreign = new Map<string, readonly string[]>();
/** Each costs a search of every line: some 5 µs in 64 KB. */
const FOREIGN_MAX = 200;

/** Takes a presented key of another form, which no shape tells, out of what is written from now on. */
export function redactFrom(key: string): void {
  const forms = foreign.get(key) ?? [...new Set([key, JSON.stringify(key).slice(1, -1)])];
  foreign.delete(key);
  foreign.set(key, forms);
  const [oldest] = foreign.keys();
  if (foreign.size > FOREIGN_MAX && oldest !== undefined) foreign.delete(oldest);
}

/** Returns whether texts that no shape tells are taken out. */
export const redactsForeign = (): boolean => foreign.size > 0;

function withoutForeign(text: string): string {
  let left = text;
  for (const forms of foreign.values()) for (const form of forms) left = left.replaceAll(form, REDACTED);
  return left;
}

export const redactKeys = (text: string): string =>
  withoutForeign(text)
    .replace(TOKEN, (found, rest?: string) => (rest === undefined ? found : REDACTED))
    .replace(KEY, REDACTED)
    .replace(KEY_WITHOUT_PREFIX, REDACTED);

/** Returns whether there may be a hash in the text, or in the text that it is the JSON of. */
export const hasHash = (text: string): boolean => HASH_DIGITS.test(text);

export const redactHashes = (text: string): string => text.replace(HASH, REDACTED);

/** Returns the text without anything that looks like a secret. */
export const redact = (text: string): string => redactHashes(redactKeys(text));

const EXCERPT_CHARS_MAX = 100;

/**
 * Returns what the log may show of a text that a stranger sent. It is redacted before it is cut, because half a hash
 * looks like none.
 */
export const excerptOf = (text: string): string => redact(withoutControls(text)).slice(0, EXCERPT_CHARS_MAX);
