// OAUTH_REDIRECTS, OAUTH_RESOURCES: where keys may be handed to, and for which servers. Redirect URIs are compared as they
// stand: a normalized one could lead elsewhere.

import { splitScopes } from '../lib/scope.ts';
import { publicUrl, trustedUrl } from './urls.ts';

/** The redirect URIs that are admitted. */
export interface Redirects {
  readonly exact: readonly string[];
  /** Each ends with a slash; one more segment follows. */
  readonly prefixes: readonly string[];
  /** Any port, path and query of this machine (RFC 8252 §7.3). */
  readonly loopback: boolean;
}

export interface ConnectConfig {
  readonly redirects: Redirects;
  /** URLs of other MCP servers that take this server's keys, without a slash at the end. */
  readonly resources: readonly string[];
}

/** Schemes that run, read or show something, in place of opening an app (RFC 8252 §7.1). */
const NO_APPS = ['http', 'https', 'javascript', 'vbscript', 'data', 'blob', 'file', 'filesystem', 'about', 'ws', 'wss'];
const NO_APP = new Set([...NO_APPS, 'ftp', 'view-source', 'mailto', 'tel', 'sms', 'intent']);

const SCHEME = /^([a-z][a-z0-9+.-]*):/;
/** The characters of a URI (RFC 3986 §2), without those of a fragment and of user-info. In a query, @ is one of them. */
const URI = /^[\w.~:/[\]!$&'()*+,;=%-]+(?:\?[\w.~:/?@[\]!$&'()*+,;=%-]*)?$/;
const LOOPBACK = /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?(?=[/?]|$)/;
/** One more path segment, as some clients have for each connection. */
const SEGMENT = /^[\w-]{1,200}$/;

/**
 * True for a URI without user-info, fragment, backslash or dot segment, encoded ones included: what comes after it was
 * compared, a browser or an app might take for something else.
 */
function isPlain(uri: string): boolean {
  if (!URI.test(uri) || /%(?![\da-f]{2})/i.test(uri) || !URL.canParse(uri)) return false;
  const [path = ''] = uri.split('?', 1);
  const segments = path
    .replace(/%2e/gi, '.')
    .replace(/%2f|%5c/gi, '/')
    .split('/');
  return !segments.includes('.') && !segments.includes('..') && !/%5c/i.test(path);
}

/** Whether a key may be handed to this URI. */
export const isAdmitted = ({ exact, prefixes, loopback }: Redirects, uri: string): boolean =>
  exact.includes(uri) ||
  prefixes.some((prefix) => uri.startsWith(prefix) && SEGMENT.test(uri.slice(prefix.length))) ||
  (loopback && isLoopbackRedirect(uri));

export const isLoopbackRedirect = (uri: string): boolean => LOOPBACK.test(uri) && isPlain(uri);

/** Two redirects that are one for the person: they differ at most in the port, on this machine (RFC 8252 §7.3). */
export const isSameRedirect = (a: string, b: string): boolean =>
  a === b || (isLoopbackRedirect(a) && isLoopbackRedirect(b) && withoutPort(a) === withoutPort(b));

const withoutPort = (uri: string): string => uri.replace(LOOPBACK, (origin) => origin.replace(/:\d+$/, ''));

export function redirectsOf(value: string): Redirects | null {
  const items = splitScopes(value);
  const uris = items.filter((item) => item !== 'loopback');
  if (items.length === 0 || !uris.every(isRule)) return null;
  const isPrefix = (uri: string) => uri.endsWith('/*');
  return {
    exact: uris.filter((uri) => !isPrefix(uri)),
    prefixes: uris.filter(isPrefix).map((uri) => uri.slice(0, -1)),
    loopback: items.includes('loopback'),
  };
}

/** A URI as it must be sent, or one of https with `/*` at its end. */
function isRule(uri: string): boolean {
  const scheme = SCHEME.exec(uri)?.[1];
  if (scheme === undefined) return false;
  if (scheme !== 'https') return !NO_APP.has(scheme) && isPlain(uri) && !uri.includes('*') && !/:\/*$/.test(uri);
  const bare = uri.endsWith('/*') ? uri.slice(0, -1) : uri;
  // As a URL parser writes it: what is spelled otherwise would never be sent, or names another host than it seems to.
  const { href, host } = URL.parse(bare) ?? { href: '', host: '' };
  if (bare !== uri && bare.includes('?')) return false; // the open part would be of the query
  return isPlain(bare) && !bare.includes('*') && (href === bare || href === `${bare}/`) && host !== '';
}

/** As clients send them, whose URLs a parser has written. */
export function resourcesOf(value: string): readonly string[] | null {
  const urls = splitScopes(value).map((url) => trustedUrl(url) && publicUrl(url));
  return urls.length > 0 && urls.every((url) => url !== null) ? urls : null;
}
