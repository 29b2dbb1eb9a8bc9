// What a client's document says (Client ID Metadata Documents), and whether it can be used. Pure. Its names and pictures
// are its own words, and are read by nobody.

import { err, ok, type Result } from '../ground/result.ts';
import { isObject, type JsonObject } from '../ground/text.ts';
import { isNameable } from './redirects.ts';

const URIS_MAX = 20;
const URIS_CHARS_MAX = 2000;

/** Returns the redirect URIs in a client's document; or why it can't be used, for the log. */
export function redirectUrisIn(clientId: string, body: Uint8Array): Result<readonly string[], string> {
  const document = objectIn(body);
  if (document === null) return err('is no JSON object in UTF-8 that has each field once');
  if (document.client_id !== clientId) return err('has another client_id');
  if (!isPublic(document)) return err('is of a client that needs a secret or a key of its own');
  const { redirect_uris: uris } = document;
  const areUris = Array.isArray(uris) && uris.length > 0 && uris.every((uri) => typeof uri === 'string');
  if (!areUris || uris.length > URIS_MAX || uris.join('').length > URIS_CHARS_MAX) {
    return err('has no 1 to 20 redirect_uris of 2,000 characters together');
  }
  const nameable = uris.filter(isNameable);
  return nameable.length > 0 ? ok(nameable) : err('has no redirect URI that a key may be handed to');
}

/** Returns whether the client may use /token without a secret, as all clients of this server do. */
function isPublic(document: JsonObject): boolean {
  if (document.client_secret !== undefined) return false;
  const { token_endpoint_auth_method: method = 'none', token_endpoint_auth_methods_supported: methods } = document;
  return method === 'none' || (Array.isArray(methods) && methods.includes('none'));
}

function objectIn(body: Uint8Array): JsonObject | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body); // a BOM stays, and is no JSON
    const document: unknown = JSON.parse(text);
    return isObject(document) && !hasMemberTwice(text) ? document : null;
  } catch {
    return null; // not UTF-8, no JSON, or deeper than the parser goes
  }
}

/** A string of JSON, or a character that opens or closes something. */
const TOKEN = /"(?:[^"\\]|\\.)*"(?=(\s*:)?)|[[\]{}]/g;

/**
 * Returns whether an object in a valid JSON text has two fields of one name. JSON.parse takes the last, other readers
 * the first.
 */
function hasMemberTwice(text: string): boolean {
  const names = new Set<string>();
  let depth = 0;
  for (const [token, colon] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') depth += 1;
    else if (token === '}' || token === ']') depth -= 1;
    else if (depth === 1 && colon !== undefined) {
      const name: string = JSON.parse(token);
      if (names.has(name)) return true;
      names.add(name);
    }
  }
  return false;
}
