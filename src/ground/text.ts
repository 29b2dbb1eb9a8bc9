// Text and JSON values: what may be stored, what an error says, what is an object; and what scopes and prefixes look like.

// C0, DEL and C1 controls: the file driver cuts a string at NUL, and none of them belongs in a name.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const CONTROLS = new RegExp(CONTROL, 'g');

/** Returns true for text that every kind of database gives back as it was: no controls, no lone surrogates. */
export const isStorable = (text: string): boolean => !CONTROL.test(text) && text.isWellFormed();

/**
 * A character that can be seen: no white space, no format character, none that is drawn as nothing (UAX #44,
 * Default_Ignorable_Code_Point, with the Hangul fillers), nor the blank ones that Unicode counts as symbols and letters.
 */
const VISIBLE = /[^\p{White_Space}\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800\ufffc\u{16fe4}\u{1d159}]/u;

/** What a runtime puts in place of bytes that are not UTF-8, in arguments and in the environment. */
export const REPLACEMENT = '\u{fffd}';

/** Returns true for a text in which something can be seen: a name that people tell apart. */
export const isVisible = (text: string): boolean => VISIBLE.test(text);

export const withoutControls = (text: string): string => text.replace(CONTROLS, '');

/** Returns true when `text` has `min` to `max` Unicode code points, which is also how JSON Schema counts characters. */
export function hasLength(text: string, min: number, max: number): boolean {
  if (text.length > 2 * max) return false; // a code point is at most two units: a huge text is not walked
  let count = 0;
  for (const _ of text) count += 1;
  return count >= min && count <= max;
}

const WIDE = /[^\0-\xff]/;

/** Returns the bytes of a string in memory: one for each character, or two if any of them needs two. */
export const bytesInMemory = (text: string): number => (WIDE.test(text) ? 2 : 1) * text.length;

const NOTHING_TO_ESCAPE = /^[\w.:@|/-]*$/;

/** Returns an id as JSON. Ids seldom need escapes. Without any, this takes a fraction of the general encoder's time. */
export const quoted = (id: string): string => (NOTHING_TO_ESCAPE.test(id) ? `"${id}"` : JSON.stringify(id));

/** Returns what a thrown value says: an Error its message. */
export const reasonOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));

export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * A scope token (RFC 6749 §3.3): printable ASCII except space, quote and backslash; the length is a limit of ours. As
 * text, for JSON Schema.
 */
export const SCOPE_PATTERN = '^[\\x21\\x23-\\x5B\\x5D-\\x7E]{1,100}$';

const SCOPE = new RegExp(SCOPE_PATTERN);

export const isScope = (text: string): boolean => SCOPE.test(text);

/** Returns the parts of a list with spaces between. They need not be scopes. */
export const splitScopes = (list: string): readonly string[] => list.split(' ').filter((part) => part !== '');

/** Joins scopes with spaces between. What is not a scope is left out: with a space in it, it would read as two. */
export const joinScopes = (scopes: readonly string[]): string => scopes.filter(isScope).join(' ');

/** What API keys may begin with: `sk`, or a prefix of one's own, by which scanners know whose key they have found. */
export const KEY_PREFIX_PATTERN = '[a-z0-9]{2,12}';

/** Unreserved characters (RFC 3986 §2.3), and `@ : /`, which are frequent in owners, stay as they are. */
const STAYS = /^[\w.~@:/-]*$/;

/** Reserved characters that encodeURIComponent leaves. */
const RESERVED = /[!'()*]/g;

/** Percent-encodes free text for header values (RFC 3986 §2.1): UTF-8, exact and reversible. */
export function percentEncode(text: string): string {
  if (STAYS.test(text)) return text;
  return encodeURIComponent(text)
    .replace(RESERVED, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%40|%3A|%2F/g, decodeURIComponent);
}
