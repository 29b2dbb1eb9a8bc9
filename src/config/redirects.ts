// Parses OAUTH_REDIRECTS and OAUTH_RESOURCES: where keys may be sent, and for which servers. Redirect URIs are compared
// as written, because a normalized one could lead elsewhere.

import { splitScopes } from '../ground/text.ts';
import { parseUrl, publicUrl, trustedUrl } from '../ground/urls.ts';

export interface Redirects {
  readonly exact: readonly string[];
  /** Each ends with a slash. One more segment follows. */
  readonly prefixes: readonly string[];
  /** Any port, path and query of this machine (RFC 8252 §7.3). */
  readonly loopback: boolean;
}

/** Schemes that run, read or show something instead of opening an app (RFC 8252 §7.1). */
const NO_APPS = ['http', 'https', 'javascript', 'vbscript', 'data', 'blob', 'file', 'filesystem', 'about', 'ws', 'wss'];
const NO_APP = new Set([...NO_APPS, 'ftp', 'view-source', 'mailto', 'tel', 'sms', 'intent']);

const SCHEME = /^([a-z][a-z0-9+.-]*):/;
/** The characters of a URI (RFC 3986 §2) without fragment and user-info. A query may contain @. */
const URI = /^[\w.~:/[\]!$&'()*+,;=%-]+(?:\?[\w.~:/?@[\]!$&'()*+,;=%-]*)?$/;
const LOOPBACK = /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?(?=[/?]|$)/;
/** The path segment that some clients have for each connection. */
const SEGMENT = /^[\w-]{1,200}$/;

/**
 * Returns whether a URI has no user-info, fragment, backslash or dot segment, encoded or not: clients interpret those
 * differently.
 */
export function isPlain(uri: string): boolean {
  if (!URI.test(uri) || /%(?![\da-f]{2})/i.test(uri) || !URL.canParse(uri)) return false;
  const [path = ''] = uri.split('?', 1);
  const segments = path.replace(/%2e/gi, '.').replace(/%2f/gi, '/').split('/');
  return !segments.includes('.') && !segments.includes('..') && !/%5c/i.test(path);
}

export const isAdmitted = ({ exact, prefixes, loopback }: Redirects, uri: string): boolean =>
  exact.includes(uri) ||
  prefixes.some((prefix) => uri.startsWith(prefix) && SEGMENT.test(uri.slice(prefix.length))) ||
  (loopback && isLoopbackRedirect(uri));

export const isLoopbackRedirect = (uri: string): boolean => LOOPBACK.test(uri) && isPlain(uri);

/** Returns whether two URIs are the same. On loopback the ports may differ (RFC 8252 §7.3). */
export const isSameRedirect = (a: string, b: string): boolean =>
  a === b || (isLoopbackRedirect(a) && isLoopbackRedirect(b) && withoutPort(a) === withoutPort(b));

const withoutPort = (uri: string): string => uri.replace(LOOPBACK, (origin) => origin.replace(/:\d+$/, ''));

export function redirectsOf(value: string): Redirects | null {
  const list = parseList(value, 'loopback', isRule);
  return list && { exact: list.exact, prefixes: list.prefixes, loopback: list.hasWord };
}

/** Parses a list of URIs, some with `/*` at the end, and a word. Returns null if it is empty, or one isn't a rule. */
export function parseList(value: string, word: string, isRule: (uri: string) => boolean) {
  const items = splitScopes(value);
  const uris = items.filter((item) => item !== word);
  if (items.length === 0 || !uris.every(isRule)) return null;
  const isPrefix = (uri: string) => uri.endsWith('/*');
  return {
    exact: uris.filter((uri) => !isPrefix(uri)),
    prefixes: uris.filter(isPrefix).map((uri) => uri.slice(0, -1)),
    hasWord: uris.length < items.length,
  };
}

/** Returns whether the text is an exact URI, or an https one that ends with `/*`. */
function isRule(uri: string): boolean {
  const scheme = SCHEME.exec(uri)?.[1];
  if (scheme === undefined) return false;
  if (scheme !== 'https') return !NO_APP.has(scheme) && isPlain(uri) && !uri.includes('*') && !/:\/*$/.test(uri);
  const bare = uri.endsWith('/*') ? uri.slice(0, -1) : uri;
  // It must be as a URL parser writes it: other spellings are never sent, or name another host than they seem to.
  const href = parseUrl(bare)?.href;
  if (bare !== uri && bare.includes('?')) return false; // the query would be open
  return isPlain(bare) && !bare.includes('*') && (href === bare || href === `${bare}/`);
}

/**
 * Returns whether a key may be sent to a URI of this form: OAUTH_REDIRECTS can name it exactly, or it is on loopback.
 */
export const isNameable = (uri: string): boolean => isLoopbackRedirect(uri) || (!uri.includes('*') && isRule(uri));

/** Returns the URLs as a URL parser spells them, because clients send them so; null if one is invalid. */
export function resourcesOf(value: string): readonly string[] | null {
  const urls = splitScopes(value).map((url) => trustedUrl(url) && publicUrl(url));
  return urls.length > 0 && urls.every((url) => url !== null) ? urls : null;
}
