// Checks and encodes text and JSON values: what may be stored or shown, and the forms of scopes and key prefixes.

// C0, DEL and C1 controls: the file driver truncates strings at NUL, and none of them belongs in a name.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const CONTROLS = new RegExp(CONTROL, 'g');

/** Returns whether every kind of database returns a text unchanged: no controls, no lone surrogates. */
export const isStorable = (text: string): boolean => !CONTROL.test(text) && text.isWellFormed();

/**
 * A visible character: no white space, no format character, none drawn as nothing (UAX #44,
 * Default_Ignorable_Code_Point, with the Hangul fillers), none of the blank ones that Unicode counts as symbols and letters.
 */
const VISIBLE = /[^\p{White_Space}\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800\ufffc\u{16fe4}\u{1d159}]/u;

/** What a runtime substitutes for bytes that aren't UTF-8, in arguments and in the environment. */
export const REPLACEMENT = '\u{fffd}';

/** Returns whether a text has a visible character, so that people can tell a name from others. */
export const isVisible = (text: string): boolean => VISIBLE.test(text);

export const withoutControls = (text: string): string => text.replace(CONTROLS, '');

/** Escapes a UTF-16 unit as JSON may. */
export const escapedUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

export const escapedControls = (text: string): string => text.replace(CONTROLS, escapedUnit);

/** Returns whether `text` has `min` to `max` Unicode code points, which is also how JSON Schema counts characters. */
export function hasLength(text: string, min: number, max: number): boolean {
  if (text.length > 2 * max) return false; // a code point has at most two units, so a huge text isn't walked
  let count = 0;
  for (const _ of text) count += 1;
  return count >= min && count <= max;
}

/** Returns whether a key, or a client that asks for one, may be called so. */
export const isKeyName = (text: string): boolean => hasLength(text, 1, 200) && isStorable(text) && isVisible(text);

/** The most characters of an owner's name, which is the `sub` of tokens (OpenID Connect Core §2). */
export const SUBJECT_CHARS_MAX = 255;

/** Returns whether a text can be an owner of keys. */
export const isSubject = (text: string): boolean => hasLength(text, 1, SUBJECT_CHARS_MAX) && isStorable(text);

export const A_KEY_NAME = '1 to 200 characters without controls, and not blank';

/** Returns a value as JSON without half characters; nothing for a value that JSON leaves out. */
export const jsonOf = (value: unknown): string => withoutHalves(JSON.stringify(value) ?? '');

/** Returns whether JSON can express a value: no BigInt is in it, and not the value itself. */
export function isJson(value: unknown): boolean {
  try {
    return JSON.stringify(value) !== undefined;
  } catch {
    return false;
  }
}

/**
 * Returns what JSON.stringify made without half characters (lone surrogates), such as remain where a text was cut: many
 * readers of JSON refuse a whole document for one.
 */
export const withoutHalves = (json: string): string =>
  json.includes(ESCAPED_HALF) ? json.replace(ESCAPES, whole) : json;

/** How JSON.stringify escapes nothing but halves; after a backslash it may be plain text. */
const ESCAPED_HALF = '\\ud';
const ESCAPES = /\\(?:u[\da-f]{4}|.)/g;
const whole = (escaped: string): string => (escaped.startsWith(ESCAPED_HALF) ? REPLACEMENT : escaped);

const WIDE = /[^\0-\xff]/;

/** Returns the bytes of a string in memory: one per character, or two if any needs two. */
export const bytesInMemory = (text: string): number => (WIDE.test(text) ? 2 : 1) * text.length;

/** What Bun's `fetch` adds to messages, for who wrote the program. */
const ADVICE = / For more information, pass `verbose: true` [^\n]*/;

/** What Deno's `fetch` says only in an error's cause, behind the URL, whose query may be secret. */
const FETCH_CAUSE = /client error \(\w+\): (.*)/;

/** Returns why a `fetch` of Deno failed; undefined on Bun, whose errors say it themselves. */
export function fetchCauseOf(thrown: unknown): string | undefined {
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  return cause instanceof Error ? FETCH_CAUSE.exec(cause.message)?.[1] : undefined;
}

/** Returns the message of an Error, or any other thrown value as text. */
export function reasonOf(thrown: unknown): string {
  const message = (thrown instanceof Error ? thrown.message : String(thrown)).replace(ADVICE, '');
  const cause = fetchCauseOf(thrown);
  return cause === undefined ? message : `${message}: ${cause}`;
}

export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A scope token (RFC 6749 §3.3): printable ASCII except space, quote and backslash, with our length limit. */
export const SCOPE_PATTERN = '^[\\x21\\x23-\\x5B\\x5D-\\x7E]{1,100}$';

const SCOPE = new RegExp(SCOPE_PATTERN);

export const isScope = (text: string): boolean => SCOPE.test(text);

export const A_SCOPE = '1 to 100 printable ASCII characters without space, quote or backslash';

/** Splits a list at spaces. The parts need not be scopes. */
export const splitScopes = (list: string): readonly string[] => list.split(' ').filter((part) => part !== '');

/**
 * Returns the first different parts of such a list that count, at most `max`. Reads no further: a stranger's list may have
 * 170,000 different ones, and collecting them all would block for a quarter of a second.
 */
export function firstParts(list: string, max: number, counts: (part: string) => boolean = () => true): string[] {
  const parts = new Set<string>();
  for (let from = 0; from < list.length && parts.size < max; ) {
    const found = list.indexOf(' ', from);
    const end = found === -1 ? list.length : found;
    const part = list.slice(from, end);
    if (part !== '' && counts(part)) parts.add(part);
    from = end + 1;
  }
  return [...parts];
}

/** Returns scopes without those that stand twice: they are a set. */
export const scopeSet = (scopes: readonly string[]): string[] => [...new Set(scopes)];

/** Joins scopes with spaces. Leaves out what isn't a scope: one with a space would read as two. */
export const joinScopes = (scopes: readonly string[]): string => scopes.filter(isScope).join(' ');

/** The prefix of API keys: `sk`, or the operator's own, by which scanners know whose key they have found. */
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

// Words the message about a bad setting, for all rooms, and finds misspellings.

/** Returns the message about a bad setting. `got`: the value as it may be shown, if at all. */
export const expected = (name: string, what: string, got?: string): string =>
  `${name}: expected ${what}${got === undefined ? '' : `, got ${JSON.stringify(got)}`}`;

/** Takes the arguments of `expected`. */
export type NoteFault = (...fault: Parameters<typeof expected>) => void;

/** Returns whether at most `editsMax` insertions, deletions, replacements or swaps of neighbours turn `a` into `b`. */
export function isWithinEdits(a: string, b: string, editsMax: number): boolean {
  if (a === b) return true;
  if (editsMax === 0 || Math.abs(a.length - b.length) > editsMax) return false;
  let same = 0;
  while (a[same] === b[same]) same += 1;
  const [restA, restB] = [a.slice(same), b.slice(same)];
  const after = (skippedA: number, skippedB: number) =>
    isWithinEdits(restA.slice(skippedA), restB.slice(skippedB), editsMax - 1);
  const isSwapped = restA[0] === restB[1] && restA[1] === restB[0];
  return after(1, 1) || after(1, 0) || after(0, 1) || (isSwapped && after(2, 2));
}
