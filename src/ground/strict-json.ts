// Parses JSON that others have written and somebody else has read before: as UTF-8 without a BOM, and no member twice,
// of which one parser takes the first and another the last (RFC 8259 §4).

import { isObject, type JsonObject } from './text.ts';

/** Returns the object in these bytes; null if they are no JSON object in UTF-8 in which each member stands once. */
export function strictObject(bytes: Uint8Array): JsonObject | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes); // a BOM stays: it is not JSON
    const value: unknown = JSON.parse(text);
    return isObject(value) && !hasMemberTwice(text) ? value : null;
  } catch {
    return null; // not UTF-8, not JSON, or nested too deep for the parser
  }
}

/** A JSON string, with what follows if it is a member's name, or a bracket. */
const TOKEN = /"(?:[^"\\]|\\.)*"(?=(\s*:)?)|[[\]{}]/g;

/** Returns whether some object of a valid JSON text, at any depth, has two members of one name. */
function hasMemberTwice(text: string): boolean {
  const open: (Set<string> | null)[] = []; // the names in each open object; null: an array
  for (const [token, colon] of text.matchAll(TOKEN)) {
    if (token === '{') open.push(new Set());
    else if (token === '[') open.push(null);
    else if (token === '}' || token === ']') open.pop();
    else if (colon !== undefined) {
      const name: string = JSON.parse(token);
      const names = open.at(-1);
      if (names?.has(name)) return true;
      names?.add(name);
    }
  }
  return false;
}
