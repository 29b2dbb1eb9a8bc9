// What a client asks of /authorize (RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2): a page for the person, an error that the
// client is sent, or a page that says why there is none. Pure. Nobody is sent anywhere before the redirect is known to be
// one of the client's that is still admitted.

import { type ConnectConfig, isAdmitted, isLoopbackRedirect, isSameRedirect } from '../config/connect.ts';

export interface AuthorizationRequest {
  readonly clientId: string;
  /** As sent. */
  readonly redirectUri: string;
  readonly challenge: string;
  readonly state: string | null;
  /** The server that the key is for, as sent; null: not said. */
  readonly resource: string | null;
}

export type Decision =
  | { readonly kind: 'ask'; readonly request: AuthorizationRequest }
  | { readonly kind: 'send_back'; readonly to: SendBack }
  /** `why`: a sentence for the person. */
  | { readonly kind: 'stop'; readonly why: string };

/** Where a client's error goes. */
export interface SendBack {
  readonly redirectUri: string;
  readonly state: string | null;
  readonly error: 'unsupported_response_type' | 'invalid_request' | 'invalid_target' | 'access_denied';
}

export interface DecideOptions {
  readonly config: ConnectConfig;
  /** This server, without a slash at the end. */
  readonly publicUrl: string;
}

const CHALLENGE = /^[\w-]{43}$/;

/** Bun takes no longer URL. It comes back in the response, and responses that nobody reads must stay small. */
const STATE_CHARS_MAX = 16 * 1024;

const STOPS = {
  twice: 'The request has a parameter twice.',
  long: 'The request is too long.',
  client: 'This server does not know the program that sent you. Have it connect again.',
  redirect: 'The address that the key would go to is not one that the program has registered.',
  notAdmitted: 'This server hands no keys to the address that the program wants them at.',
} as const;

/** What the client asks for, by its name. A parameter without a value counts as left out (RFC 6749 §3.1). */
export const parameter = (parameters: URLSearchParams, name: string): string | null => parameters.get(name) || null;

export function hasTwice(parameters: URLSearchParams): boolean {
  const names = [...parameters.keys()];
  return new Set(names).size < names.length;
}

/** `redirectUris`: those of the client; null: this server has not registered it. */
export function decide(
  parameters: URLSearchParams,
  redirectUris: readonly string[] | null,
  { config, publicUrl }: DecideOptions,
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
  if (!isAdmitted(config.redirects, redirectUri)) return stop(STOPS.notAdmitted);

  const sendBack = (error: SendBack['error']): Decision => ({
    kind: 'send_back',
    to: { redirectUri, state, error },
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
  if (!isResource(resource, config, publicUrl)) return sendBack('invalid_target');
  return { kind: 'ask', request: { clientId, redirectUri, challenge, state, resource } };
}

/** Whether a key may be handed out for this server; null: for this one. */
export function isResource(resource: string | null, { resources }: ConnectConfig, publicUrl: string): boolean {
  if (resource === null) return true;
  return [publicUrl, `${publicUrl}/mcp`, `${publicUrl}/sse`, ...resources].includes(withoutSlash(resource));
}

export const isSameResource = (a: string, b: string): boolean => withoutSlash(a) === withoutSlash(b);

const withoutSlash = (url: string) => url.replace(/\/$/, '');

/** The redirect with what the client is told. Added to it as it stands. */
export function locationOf(redirectUri: string, told: Readonly<Record<string, string | null>>): string {
  const added = new URLSearchParams(
    Object.entries(told).flatMap(([name, value]) => (value === null ? [] : [[name, value]])),
  );
  const joint = !redirectUri.includes('?') ? '?' : /[?&]$/.test(redirectUri) ? '' : '&';
  return `${redirectUri}${joint}${added}`;
}

/** Who gets the key, as people and the trail are told. */
export function hostOf(redirectUri: string): string {
  const [scheme = '', rest = ''] = redirectUri.split(':', 2);
  const { host } = new URL(redirectUri);
  if (scheme === 'https') return host;
  if (isLoopbackRedirect(redirectUri)) return new URL(redirectUri).hostname;
  return rest.startsWith('//') && host !== '' ? `${scheme}://${host}` : `${scheme}:`;
}
