// Validates URLs that operators and clients give, and shows them without secrets.

import { isLoopback } from './ip.ts';

export const keysPageUrl = (publicUrl: string): string => `${publicUrl}/keys`;

/** Returns a URL without its user-info and query, even if it is malformed. */
export const shownUrl = (url: string): string => withoutSecrets(url, '');

/** Returns the same with marks for omitted parts, which may be what is wrong. */
export const outlinedUrl = (url: string): string =>
  withoutSecrets(url, '…@') + (url.includes('?') ? '?…' : '') + (url.includes('#') ? '#…' : '');

function withoutSecrets(url: string, userMark: string): string {
  // Drops everything up to the last @: a password may have any character, even ? and /. A file URL has no user.
  const withoutUser = /^file:/i.test(url) ? url : url.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, `$1${userMark}`);
  return withoutUser.replace(/[?#].*$/s, '');
}

/** Characters that a URL parser drops: two URLs on separate lines would read as one. */
const DROPPED = /[\t\n\r]/;

/** A name or an address as URL parsers return it. They also pass other characters, which no host has. */
const HOST = /^(?:[\w.-]*|\[.*\])$/;

/** Parses a URL; null if it isn't one as written, or has no valid host. Space around it is ignored. */
export function parseUrl(value: string): URL | null {
  const url = DROPPED.test(value.trim()) ? null : URL.parse(value);
  return url !== null && HOST.test(url.hostname) ? url : null;
}

function webUrl(value: string): URL | null {
  const url = parseUrl(value);
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : null;
}

export function publicUrl(value: string): string | null {
  const url = webUrl(value);
  if (url === null || url.search || url.hash || url.username || url.password) return null;
  return (url.origin + url.pathname).replace(/\/+$/, '');
}

function webOrigin(value: string): string | null {
  const origin = value.toLowerCase();
  return webUrl(value)?.origin === origin ? origin : null;
}

/** Origins of extensions and desktop apps, for whose schemes URL parsers return none. */
const APP_ORIGIN = /^([a-z][a-z0-9+.-]*):\/\/[\w.-]+(?::\d{1,5})?$/;
/** Schemes whose pages have no origin of this form. */
const NO_ORIGIN = new Set(['http', 'https', 'ws', 'wss', 'file', 'data', 'blob', 'about', 'javascript', 'ftp']);

/** Returns an origin as browsers send it: of a page, an extension (`chrome-extension://…`) or an app (`tauri://…`). */
export function anyOrigin(value: string): string | null {
  const origin = value.toLowerCase();
  const scheme = APP_ORIGIN.exec(origin)?.[1];
  return scheme === undefined || NO_ORIGIN.has(scheme) ? webOrigin(value) : origin;
}

// Over plain HTTP, fetched keys and metadata could be forged.
export function trustedUrl(value: string): URL | null {
  const url = webUrl(value);
  return url !== null && !url.username && !url.password && (url.protocol === 'https:' || isLoopback(url.hostname))
    ? url
    : null;
}

/** Parses the URL where an app signs its people in. The keys page adds `return` and `state` to its query. */
export function signInUrl(value: string): URL | null {
  const url = trustedUrl(value);
  const isFree =
    url !== null && !value.includes('#') && !url.searchParams.has('return') && !url.searchParams.has('state');
  return isFree ? url : null;
}

// Tokens and metadata must repeat the issuer exactly (RFC 8414 §3.3), so its text is kept, not the normalized URL.
// What a parser drops or rewrites makes a text that no issuer has: an empty user-info, a backslash, a control character.
export const isIssuer = (value: string): boolean =>
  trustedUrl(value) !== null && !/[?#\s*\\\p{Cc}]|^[^/]*\/\/[^/]*@/u.test(value);
