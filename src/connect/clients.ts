// Registered clients (RFC 7591), of which nothing is stored: the id of a client carries its redirect URIs under a MAC.

import { isAdmitted, type Redirects } from '../config/connect.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { SignedText } from '../lib/signed-text.ts';
import { isObject, isStorable } from '../lib/text.ts';
import type { StoreUnavailable } from '../problem.ts';

/** An id travels in URLs, which proxies bound at 4 to 8 KiB. */
const URIS_MAX = 10;
const URIS_CHARS_MAX = 2000;
const NAME_CHARS_MAX = 200;

/** A registration, larger ones are refused: room for all that clients say of themselves beside their URIs. */
export const REGISTRATION_BYTES_MAX = 16 * 1024;

export interface Registration {
  readonly redirectUris: readonly string[];
  /** As the client calls itself. Shown to nobody: anybody may call himself anything. */
  readonly name: string | undefined;
}

export type RegistrationError = 'invalid_redirect_uri' | 'invalid_client_metadata';

/** What is registered of what was asked for: the redirect URIs that are admitted, if there are any. */
export function registrationOf(metadata: unknown, redirects: Redirects): Result<Registration, RegistrationError> {
  if (!isObject(metadata)) return err('invalid_client_metadata');
  const { redirect_uris: uris, client_name: name } = metadata;
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > URIS_MAX) return err('invalid_redirect_uri');
  if (!uris.every((uri) => typeof uri === 'string')) return err('invalid_redirect_uri');
  if (uris.join('').length > URIS_CHARS_MAX) return err('invalid_redirect_uri');
  const admitted = [...new Set(uris)].filter((uri) => isAdmitted(redirects, uri));
  if (admitted.length === 0) return err('invalid_redirect_uri');
  return ok({ redirectUris: admitted, name: typeof name === 'string' && isName(name) ? name : undefined });
}

const isName = (name: string) => name.length <= NAME_CHARS_MAX && isStorable(name);

/** The response to a registration (RFC 7591 §3.2.1). */
export const registered = (clientId: string, { redirectUris, name }: Registration) => ({
  client_id: clientId,
  ...(name !== undefined && { client_name: name }),
  redirect_uris: redirectUris,
  token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code'],
  response_types: ['code'],
});

export interface ClientIds {
  issue(redirectUris: readonly string[]): Promise<Result<string, StoreUnavailable>>;
  /** The redirect URIs of a client; null if this server did not register it. */
  read(clientId: string): Promise<Result<readonly string[] | null, StoreUnavailable>>;
}

export const createClientIds = (signedText: SignedText<StoreUnavailable>): ClientIds => ({
  issue: (redirectUris) => signedText.sign(JSON.stringify(redirectUris)),
  async read(clientId) {
    const text = await signedText.read(clientId);
    if (!text.ok || text.value === null) return text as Result<null, StoreUnavailable>;
    return ok(JSON.parse(text.value) as readonly string[]); // signed, so it is what was registered
  },
});
