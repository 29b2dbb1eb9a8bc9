// What a client asks of /authorize (RFC 6749 §4.1.1), and whether it is valid. Pure. Nobody is redirected before the
// redirect URI is known to be the client's, and still admitted.

import { type ServersSeen, THIS_SERVER } from '../keys/audience.ts';
import { hasTwice, parameter } from './parameters.ts';
import { isAdmitted, isLoopbackRedirect, isSameRedirect, type Redirects } from './redirects.ts';

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
  /** The same by its stored name (keys/audience.ts): this server, unless the request says. */
  readonly server: string;
  /** The issuer: this server, as the request calls it. */
  readonly issuer: string;
}

export type Decision =
  | { readonly kind: 'ask'; readonly request: AuthorizationRequest }
  /** Redirects the client, with an error. */
  | { readonly kind: 'error_redirect'; readonly location: string }
  | { readonly kind: 'error_page'; readonly why: string };

/** Decides on the parameters of a request to /authorize. `publicUrl`: this server, as the request calls it. */
export type Decide = (parameters: URLSearchParams, publicUrl: string) => Promise<Decision>;

const CHALLENGE = /^[\w-]{43}$/;

/** Bun takes no longer URL. The response repeats it, and unread responses must stay small. */
const STATE_CHARS_MAX = 16 * 1024;

const PAGES = {
  twice: 'The request has a parameter twice.',
  long: 'The request is too long.',
  client: 'This server does not know the program that sent you. Have it connect again.',
  redirect: 'The address that the key would go to is not one that the program has registered.',
  notAdmitted: 'This server hands no keys to the address that the program wants them at.',
} as const;

/** Decides by a client's redirect URIs; null: this server has not registered it. */
export function decide(
  parameters: URLSearchParams,
  redirectUris: readonly string[] | null,
  redirects: Redirects,
  { url: issuer, nameOf }: ServersSeen,
): Decision {
  const get = (name: string) => parameter(parameters, name);
  const errorPage = (why: string): Decision => ({ kind: 'error_page', why });
  if (hasTwice(parameters)) return errorPage(PAGES.twice);
  const state = get('state');
  if (state !== null && state.length > STATE_CHARS_MAX) return errorPage(PAGES.long);
  const clientId = get('client_id');
  if (clientId === null || redirectUris === null) return errorPage(PAGES.client);
  const redirectUri = get('redirect_uri');
  if (redirectUri === null || !redirectUris.some((uri) => isSameRedirect(uri, redirectUri)))
    return errorPage(PAGES.redirect);
  if (!isAdmitted(redirects, redirectUri)) return errorPage(PAGES.notAdmitted);

  const errorRedirect = (error: 'unsupported_response_type' | 'invalid_request' | 'invalid_target'): Decision => ({
    kind: 'error_redirect',
    location: locationOf({ redirectUri, state, issuer }, { error }),
  });
  const responseType = get('response_type');
  if (responseType === null) return errorRedirect('invalid_request');
  if (responseType !== 'code') return errorRedirect('unsupported_response_type');
  const responseMode = get('response_mode');
  if (responseMode !== null && responseMode !== 'query') return errorRedirect('invalid_request');
  const challenge = get('code_challenge');
  if (challenge === null || !CHALLENGE.test(challenge)) return errorRedirect('invalid_request');
  if (get('code_challenge_method') !== 'S256') return errorRedirect('invalid_request');
  const resource = get('resource');
  const server = resource === null ? THIS_SERVER : nameOf(resource);
  if (server === null) return errorRedirect('invalid_target');
  const scope = get('scope');
  return { kind: 'ask', request: { clientId, redirectUri, challenge, state, scope, resource, server, issuer } };
}

/** Returns the parameters that ask for the same again. */
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

/** Returns the redirect URI with `told` added, and the issuer (RFC 9207). */
export function locationOf(
  { redirectUri, state, issuer }: Pick<AuthorizationRequest, 'redirectUri' | 'state' | 'issuer'>,
  told: Readonly<Record<string, string>>,
): string {
  const added = new URLSearchParams({ ...told, ...(state !== null && { state }), iss: issuer });
  const joint = !redirectUri.includes('?') ? '?' : /[?&]$/.test(redirectUri) ? '' : '&';
  return `${redirectUri}${joint}${added}`;
}

/** Returns who gets the key, as people and key events are told. */
export function hostOf(redirectUri: string): string {
  const [scheme = '', rest = ''] = redirectUri.split(':', 2);
  const { host, hostname } = new URL(redirectUri);
  if (scheme === 'https') return host;
  if (isLoopbackRedirect(redirectUri)) return hostname;
  return rest.startsWith('//') && host !== '' ? `${scheme}://${host}` : `${scheme}:`;
}
