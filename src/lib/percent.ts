// Percent-encoding (RFC 3986 §2.1) of free text for header values: UTF-8, exact and reversible.

/** Unreserved characters (RFC 3986 §2.3), and `@ : /`, which owners are full of, stay as they are. */
const STAYS = /^[\w.~@:/-]*$/;

/** Characters that encodeURIComponent leaves, but are reserved. */
const RESERVED = /[!'()*]/g;

export function percentEncode(text: string): string {
  if (STAYS.test(text)) return text;
  return encodeURIComponent(text)
    .replace(RESERVED, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%40|%3A|%2F/g, decodeURIComponent);
}
