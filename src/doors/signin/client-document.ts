// Parses and validates a client's document (Client ID Metadata Documents). Pure. It ignores names and pictures, which
// anybody can make up.

import { isNameable } from '../../config/redirects.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { strictObject } from '../../ground/strict-json.ts';
import type { JsonObject } from '../../ground/text.ts';

const URIS_MAX = 20;
const URIS_CHARS_MAX = 2000;

/** Returns the redirect URIs in a client's document, or why it can't be used, for the log. */
export function redirectUrisIn(clientId: string, body: Uint8Array): Result<readonly string[], string> {
  const document = strictObject(body);
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

/** Returns whether the client may use /token without a secret, like all clients of this server. */
function isPublic(document: JsonObject): boolean {
  if (document.client_secret !== undefined) return false;
  const { token_endpoint_auth_method: method = 'none', token_endpoint_auth_methods_supported: methods } = document;
  return method === 'none' || (Array.isArray(methods) && methods.includes('none'));
}
