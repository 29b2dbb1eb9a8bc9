// Registered clients (RFC 7591), of which nothing is stored: the id of a client carries its redirect URIs under a MAC.

import { isAdmitted, type Redirects } from '../config/connect.ts';
import { err, ok, type Result } from '../lib/result.ts';
import { isObject, isStorable } from '../lib/text.ts';
import type { StoreUnavailable } from '../problem.ts';
import type { ConnectSecrets } from './secrets.ts';

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

const ALPHABET = { alphabet: 'base64url', omitPadding: true } as const;
/** The URIs as JSON, and their MAC. No longer than those that are issued. */
const CLIENT_ID = /^([\w-]{1,4096})\.([\w-]{43})$/;

export function createClientIds({ clientKey }: Pick<ConnectSecrets, 'clientKey'>): ClientIds {
  return {
    async issue(redirectUris) {
      const key = await clientKey();
      if (!key.ok) return key;
      const carried = bytesOf(JSON.stringify(redirectUris)).toBase64(ALPHABET);
      const mac = await crypto.subtle.sign('HMAC', key.value, signed(carried));
      return ok(`${carried}.${new Uint8Array(mac).toBase64(ALPHABET)}`);
    },
    async read(clientId) {
      const [, carried, mac] = CLIENT_ID.exec(clientId) ?? [];
      if (carried === undefined || mac === undefined) return ok(null);
      const key = await clientKey();
      if (!key.ok) return key;
      const isOurs = await crypto.subtle.verify('HMAC', key.value, bytesIn(mac), signed(carried));
      if (!isOurs) return ok(null);
      // Signed, so it is what was registered.
      return ok(JSON.parse(new TextDecoder().decode(bytesIn(carried))) as readonly string[]);
    },
  };
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

const signed = (carried: string) => bytesOf(`client_id.${carried}`);

/** Empty if it is none: no MAC has no bytes. */
function bytesIn(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.fromBase64(text, ALPHABET);
  } catch {
    return new Uint8Array();
  }
}
