// What clients ask of /register, /authorize and /token, and whether it is valid. Pure. Nobody is redirected before the
// redirect URI is known to be the client's, and still admitted.

import {
  type ConnectConfig,
  isAdmitted,
  isLoopbackRedirect,
  isSameRedirect,
  type Redirects,
} from '../ground/redirects.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Sha256 } from '../ground/runtime.ts';
import { isObject, isStorable } from '../ground/text.ts';
import type { KeyRequest } from '../keys/grants.ts';
import type { Audience } from '../keys/record.ts';
import type { CodeContent } from './codes.ts';

/** The id of a client holds them, and travels in URLs, which proxies bound at 4 to 8 KiB. */
const URIS_MAX = 10;
const URIS_CHARS_MAX = 2000;
const NAME_CHARS_MAX = 200;

/** What a person decides about a new key. */
export type NewKey = Omit<KeyRequest, 'resource'> & { readonly name: string };

export type RegistrationError = 'invalid_redirect_uri' | 'invalid_client_metadata';

/** The response to a registration (RFC 7591 §3.2.1): the redirect URIs that are admitted, if there are any. */
export function registrationOf(metadata: unknown, { redirects }: ConnectConfig) {
  if (!isObject(metadata)) return err<RegistrationError>('invalid_client_metadata');
  const { redirect_uris: uris, client_name: name } = metadata;
  const areFew = Array.isArray(uris) && uris.length <= URIS_MAX && uris.every((uri) => typeof uri === 'string');
  if (!areFew || uris.join('').length > URIS_CHARS_MAX) return err<RegistrationError>('invalid_redirect_uri');
  const admitted = [...new Set(uris)].filter((uri) => isAdmitted(redirects, uri));
  if (admitted.length === 0) return err<RegistrationError>('invalid_redirect_uri');
  return ok({
    ...(isName(name) && { client_name: name }),
    redirect_uris: admitted,
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code'],
    response_types: ['code'],
  });
}

/** Shown to nobody: clients may give themselves any name. */
const isName = (name: unknown): name is string =>
  typeof name === 'string' && name.length <= NAME_CHARS_MAX && isStorable(name);

/** RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2. */
export interface AuthorizationRequest {
  readonly clientId: string;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly state: string | null;
  /** What the client would like; it decides nothing. */
  readonly scope: string | null;
  /** The server that the key is for, as sent; null: not given. */
  readonly resource: string | null;
}

export type Decision =
  | { readonly kind: 'ask'; readonly request: AuthorizationRequest }
  /** Redirects the client, with an error. */
  | { readonly kind: 'send_back'; readonly location: string }
  | { readonly kind: 'stop'; readonly why: string };

const CHALLENGE = /^[\w-]{43}$/;

/** Bun takes no longer URL. The response repeats it, and unread responses must stay small. */
const STATE_CHARS_MAX = 16 * 1024;

const STOPS = {
  twice: 'The request has a parameter twice.',
  long: 'The request is too long.',
  client: 'This server does not know the program that sent you. Have it connect again.',
  redirect: 'The address that the key would go to is not one that the program has registered.',
  notAdmitted: 'This server hands no keys to the address that the program wants them at.',
} as const;

/** A parameter without a value counts as left out (RFC 6749 §3.1). */
export const parameter = (parameters: URLSearchParams, name: string): string | null => parameters.get(name) || null;

export function hasTwice(parameters: URLSearchParams): boolean {
  const names = [...parameters.keys()];
  return new Set(names).size < names.length;
}

/** `redirectUris`: the client's; null: this server has not registered it. */
export function decide(
  parameters: URLSearchParams,
  redirectUris: readonly string[] | null,
  redirects: Redirects,
  audience: Audience,
): Decision {
  const get = (name: string) => parameter(parameters, name);
  const stop = (why: string): Decision => ({ kind: 'stop', why });
  if (hasTwice(parameters)) return stop(STOPS.twice);
  const state = get('state');
  if (state !== null && state.length > STATE_CHARS_MAX) return stop(STOPS.long);
  const clientId = get('client_id');
  if (clientId === null || redirectUris === null) return stop(STOPS.client);
  const redirectUri = get('redirect_uri');
  if (redirectUri === null || !redirectUris.some((uri) => isSameRedirect(uri, redirectUri)))
    return stop(STOPS.redirect);
  if (!isAdmitted(redirects, redirectUri)) return stop(STOPS.notAdmitted);

  const sendBack = (error: 'unsupported_response_type' | 'invalid_request' | 'invalid_target'): Decision => ({
    kind: 'send_back',
    location: locationOf({ redirectUri, state }, { error }, audience.own),
  });
  const responseType = get('response_type');
  if (responseType === null) return sendBack('invalid_request');
  if (responseType !== 'code') return sendBack('unsupported_response_type');
  const responseMode = get('response_mode');
  if (responseMode !== null && responseMode !== 'query') return sendBack('invalid_request');
  const challenge = get('code_challenge');
  if (challenge === null || !CHALLENGE.test(challenge)) return sendBack('invalid_request');
  if (get('code_challenge_method') !== 'S256') return sendBack('invalid_request');
  const resource = get('resource');
  if (resource !== null && !audience.names.includes(audience.nameOf(resource))) return sendBack('invalid_target');
  return { kind: 'ask', request: { clientId, redirectUri, challenge, state, scope: get('scope'), resource } };
}

/** The parameters that ask for the same again. */
export function parametersOf(request: AuthorizationRequest): Readonly<Record<string, string>> {
  const { clientId, redirectUri, challenge, state, scope, resource } = request;
  return {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: redirectUri,
    code_challenge: challenge,
    code_challenge_method: 'S256',
    ...(state !== null && { state }),
    ...(scope !== null && { scope }),
    ...(resource !== null && { resource }),
  };
}

export const queryFor = (request: AuthorizationRequest): string =>
  new URLSearchParams(parametersOf(request)).toString();

/** The redirect URI with `told` added, and the issuer (RFC 9207). */
export function locationOf(
  { redirectUri, state }: Pick<AuthorizationRequest, 'redirectUri' | 'state'>,
  told: Readonly<Record<string, string>>,
  publicUrl: string,
): string {
  const added = new URLSearchParams({ ...told, ...(state !== null && { state }), iss: publicUrl });
  const joint = !redirectUri.includes('?') ? '?' : /[?&]$/.test(redirectUri) ? '' : '&';
  return `${redirectUri}${joint}${added}`;
}

/** Who gets the key, as people and key events are told. */
export function hostOf(redirectUri: string): string {
  const [scheme = '', rest = ''] = redirectUri.split(':', 2);
  const { host, hostname } = new URL(redirectUri);
  if (scheme === 'https') return host;
  if (isLoopbackRedirect(redirectUri)) return hostname;
  return rest.startsWith('//') && host !== '' ? `${scheme}://${host}` : `${scheme}:`;
}

/** RFC 6749 §5.2, RFC 8707 §2. */
export type TokenError =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'unsupported_grant_type'
  | 'invalid_target';

/** RFC 6749 §4.1.3, RFC 7636 §4.5, RFC 8707 §2.2. */
interface TokenRequest {
  readonly clientId: string;
  readonly code: string;
  readonly verifier: string;
  readonly redirectUri: string | null;
  readonly resource: string | null;
}

/** RFC 6749 §3.2: no field twice. */
export function grantTypeOf(form: URLSearchParams): Result<string, TokenError> {
  const grantType = parameter(form, 'grant_type');
  return grantType === null || hasTwice(form) ? err('invalid_request') : ok(grantType);
}

/** Of the grant type `authorization_code`. */
export function tokenRequestOf(form: URLSearchParams): Result<TokenRequest, TokenError> {
  const get = (name: string) => parameter(form, name);
  const [clientId, code, verifier] = [get('client_id'), get('code'), get('code_verifier')];
  if (clientId === null || code === null || verifier === null) return err('invalid_request');
  return ok({ clientId, code, verifier, redirectUri: get('redirect_uri'), resource: get('resource') });
}

/** The name of the server that a key is asked for: this one unless the request says. */
export const serverOf = ({ resource }: Pick<AuthorizationRequest, 'resource'>, audience: Audience): string =>
  resource === null ? audience.own : audience.nameOf(resource);

/** RFC 7636 §4.1. */
const VERIFIER = /^[\w.~-]{43,128}$/;

/** Null if the code was made for this client, verifier, redirect and resource. */
export function misfit(asked: TokenRequest, code: CodeContent, audience: Audience, sha256: Sha256): TokenError | null {
  const { clientId, verifier, redirectUri, resource } = asked;
  if (sha256(clientId, 'base64url') !== code.client) return 'invalid_grant';
  if (!VERIFIER.test(verifier) || sha256(verifier, 'base64url') !== code.challenge) return 'invalid_grant';
  if (redirectUri !== null && redirectUri !== code.redirectUri) return 'invalid_grant';
  return resource === null || audience.nameOf(resource) === serverOf(code, audience) ? null : 'invalid_target';
}
