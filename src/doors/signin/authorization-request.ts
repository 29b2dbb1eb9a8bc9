// Parses and validates a client's request to /authorize (RFC 6749 §4.1.1). Pure. It redirects nobody before it knows
// that the redirect URI is the client's and admitted.

import { hasRepeatedField, parameter, type RefusalReason } from '../../api/oauth.ts';
import { isLoopbackRedirect, isSameRedirect } from '../../config/redirects.ts';
import { type Problem, publicPart } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Caller } from '../../keys/actor.ts';
import { type BindableServers, THIS_SERVER } from '../../keys/audience.ts';
import type { LogFields } from '../../watch/log.ts';
import { excerptOf } from '../../watch/redact.ts';
import type { Client, ClientFault } from './clients.ts';

/** A request for a code (RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2). */
export interface AuthorizationRequest {
  readonly clientId: string;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly state: string | null;
  /** The scopes that the client requests. The person decides. */
  readonly scope: string | null;
  /** The server that the key is for, as sent; null if none was. */
  readonly resource: string | null;
  /** The stored name of that server (keys/audience.ts), by default this one. */
  readonly server: string;
  /** The issuer: this server under the name that the request used. */
  readonly issuer: string;
  readonly client: Client;
}

export type Decision =
  | { readonly kind: 'ask'; readonly request: AuthorizationRequest }
  /** Redirects to the client with an error. */
  | { readonly kind: 'error_redirect'; readonly location: string; readonly refusal: RequestFault }
  /** The page has the status of `problem`, by default 400. */
  | {
      readonly kind: 'error_page';
      readonly why: string;
      readonly refusal: AuthorizationRefusal;
      readonly problem?: Problem;
    };

/** Why a client is refused, for the log. */
export interface AuthorizationRefusal extends RefusalReason {
  readonly error?: RequestError;
  /** The id of a client that isn't listed. */
  readonly notListed?: string;
}

/** Resolves with the decision on the parameters of /authorize. */
export type Decide = (parameters: URLSearchParams, caller: Caller) => Promise<Decision>;

const CHALLENGE = /^[\w-]{43}$/;

/** What the page or the redirect repeats, and nothing else bounds: a client that isn't listed may name any loopback URI. */
const REPEATED = ['state', 'scope', 'redirect_uri'];
/** The most characters of each. Bun takes no longer URL; a form may be longer, but unread responses must stay small. */
const REPEATED_CHARS_MAX = 16 * 1024;

/** What the person reads, and what the log says. */
const PAGES = {
  twice: ['The request has a parameter twice.', 'a parameter twice'],
  long: ['The request is too long.', 'state, scope or redirect_uri is too long'],
  client: [
    'This server does not know the program that sent you. Have it connect again.',
    'the client_id was not given by this server, or by another database',
  ],
  redirect: [
    'The address that the key would go to is not one that the program has registered.',
    'the client has not registered the redirect_uri',
  ],
  notInDocument: [
    'The address that the key would go to is not one that the program’s document names.',
    'the document does not name the redirect_uri',
  ],
  notAdmitted: [
    'This server hands no keys to the address that the program wants them at.',
    'OAUTH_REDIRECTS does not admit the redirect_uri',
  ],
} as const;

/** Returns the error page of a request that needs no client to be refused, so that no document is fetched for it. */
export function malformed(parameters: URLSearchParams): Decision | null {
  if (hasRepeatedField(parameters)) return errorPage(PAGES.twice);
  const isLong = (name: string) => (parameter(parameters, name)?.length ?? 0) > REPEATED_CHARS_MAX;
  return REPEATED.some(isLong) ? errorPage(PAGES.long) : null;
}

/**
 * Decides on a request that isn't malformed. Faults with an error page come first: nobody is redirected to a URI that the
 * client may not use.
 */
export function decide(
  parameters: URLSearchParams,
  found: Result<Client, ClientFault>,
  servers: BindableServers,
): Decision {
  const get = (name: string) => parameter(parameters, name);
  const state = get('state');
  const clientId = get('client_id') ?? '';
  if (!found.ok) return pageOfFault(clientId, found.error);
  const client = found.value;
  const redirectUri = get('redirect_uri');
  const about = {
    client: client.host === null ? client.name : excerptOf(clientId, ID_CHARS_LOGGED),
    redirectUri: redirectUri === null ? null : excerptOf(redirectUri),
  };
  if (redirectUri === null || !client.redirectUris.some((uri) => isSameRedirect(uri, redirectUri))) {
    return errorPage(client.host === null ? PAGES.redirect : PAGES.notInDocument, about);
  }
  if (!client.isAdmitted) return errorPage(PAGES.notAdmitted, about);
  const back = { redirectUri, state, issuer: servers.url };
  const asked = requestIn(get, servers);
  if (!asked.ok) {
    const { error, reason } = asked.error;
    const location = locationOf(back, { error });
    return { kind: 'error_redirect', location, refusal: { error, reason, about: { ...about, ...asked.error.about } } };
  }
  return { kind: 'ask', request: { ...asked.value, ...back, clientId, client } };
}

/** The longest part of a client's id that a line of the log has: enough to list it. */
const ID_CHARS_LOGGED = 500;

const errorPage = ([why, reason]: readonly [string, string], about?: LogFields): Decision => ({
  kind: 'error_page',
  why,
  refusal: { reason, about },
});

function pageOfFault(clientId: string, fault: ClientFault): Decision {
  if (fault.is === 'unknown') return errorPage(PAGES.client);
  const says = `The program says that it is ${fault.host}.`;
  if (fault.is === 'not_listed') {
    const why = `${says} This server does not know it: whoever runs the server can list it in OAUTH_CLIENTS.`;
    return { kind: 'error_page', why, refusal: { notListed: excerptOf(clientId, ID_CHARS_LOGGED), reason: null } };
  }
  const { problem } = fault;
  return { kind: 'error_page', why: `${says} ${publicPart(problem).detail}.`, refusal: { reason: null }, problem };
}

type RequestError = 'unsupported_response_type' | 'invalid_request' | 'invalid_target';
type RequestFault = AuthorizationRefusal & { readonly error: RequestError };
type Asked = Pick<AuthorizationRequest, 'challenge' | 'scope' | 'resource' | 'server'>;

/** Parses a known client's request, or returns the error for the redirect. */
function requestIn(get: (name: string) => string | null, { nameOf }: BindableServers): Result<Asked, RequestFault> {
  const wrong = (what: string) => err<RequestFault>({ error: 'invalid_request', reason: what });
  const responseType = get('response_type');
  if (responseType === null) return wrong('no response_type');
  if (responseType !== 'code') return err({ error: 'unsupported_response_type', reason: 'response_type is not code' });
  const responseMode = get('response_mode');
  if (responseMode !== null && responseMode !== 'query') return wrong('response_mode is not query');
  const challenge = get('code_challenge');
  if (challenge === null || !CHALLENGE.test(challenge)) return wrong('no code_challenge of 43 characters');
  if (get('code_challenge_method') !== 'S256') return wrong('code_challenge_method is not S256');
  const resource = get('resource');
  const server = resource === null ? THIS_SERVER : nameOf(resource);
  if (server !== null) return ok({ challenge, scope: get('scope'), resource, server });
  const about = { resource: excerptOf(resource ?? '') };
  return err({ error: 'invalid_target', reason: 'OAUTH_RESOURCES does not list the resource', about });
}

/** Returns the parameters that repeat the request. */
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

/** Returns the redirect URI with the parameters `told`, `state` and the issuer (RFC 9207). */
export function locationOf(
  { redirectUri, state, issuer }: Pick<AuthorizationRequest, 'redirectUri' | 'state' | 'issuer'>,
  told: Readonly<Record<string, string>>,
): string {
  const added = new URLSearchParams({ ...told, ...(state !== null && { state }), iss: issuer });
  const joint = !redirectUri.includes('?') ? '?' : /[?&]$/.test(redirectUri) ? '' : '&';
  return `${redirectUri}${joint}${added}`;
}

/** Returns the host that gets the key, as pages and key events show it. */
export function hostOf(redirectUri: string): string {
  const [scheme = '', rest = ''] = redirectUri.split(':', 2);
  const { host, hostname } = new URL(redirectUri);
  if (scheme === 'https') return host;
  if (isLoopbackRedirect(redirectUri)) return hostname;
  return rest.startsWith('//') && host !== '' ? `${scheme}://${host}` : `${scheme}:`;
}
