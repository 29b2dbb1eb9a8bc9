// What the trusted proxies in front say about the request. Each appends one entry to a list: of n proxies the outermost
// wrote the n-th from the end. Entries before that came with the request and may be forged.

import { redact, redactKeys } from '../watch/redact.ts';

/**
 * Returns the protocol of the client. It may be the first of the list, because a proxy may also replace the list with
 * one entry.
 */
export function forwardedProto(headers: Headers, proxies: number): string | null {
  const entries = entriesOf(headers.get('x-forwarded-proto'));
  return (entries.at(-proxies) ?? entries[0])?.toLowerCase() || null;
}

/** Returns the address that the outermost proxy saw, without the port that some proxies add. */
export function forwardedFor(headers: Headers, proxies: number): string | null {
  const address = entriesOf(headers.get('x-forwarded-for')).at(-proxies);
  if (!address || address.length > ADDRESS_CHARS_MAX) return null;
  const [, ipv4, ipv6] = WITH_PORT.exec(address) ?? [];
  return ipv4 ?? ipv6 ?? address;
}

/**
 * The most characters of an address that budgets and key events keep. It may be any text if TRUST_PROXY is too high.
 */
const ADDRESS_CHARS_MAX = 64;

/** Returns the id that a proxy gave the request; null if there is none, it is unfit for a log, or it holds a key. */
export function forwardedRequestId(headers: Headers): string | null {
  const id = headers.get('x-request-id');
  return id !== null && REQUEST_ID.test(id) && redactKeys(id) === id ? id : null;
}

/**
 * Returns the path that a proxy asks about, for the log. The query is left out, because it may hold secrets; those of the
 * path are taken out before it is cut, because half a key may look like none.
 */
export function forwardedPath(headers: Headers): string | undefined {
  const path = headers.get('x-forwarded-uri')?.split(/[?#]/, 1)[0];
  return path?.startsWith('/') ? redact(path).slice(0, PATH_CHARS_MAX) : undefined;
}

/** The most characters of a path: enough to tell one call from another. */
const PATH_CHARS_MAX = 500;

const REQUEST_ID = /^[\w.-]{1,128}$/;

/** Matches `192.0.2.7:50123`, `[2001:db8::7]:50123`, and the brackets alone. */
const WITH_PORT = /^(?:([\d.]+):\d+|\[([^\]]+)\](?::\d+)?)$/;

const entriesOf = (list: string | null): string[] => list?.split(',').map((entry) => entry.trim()) ?? [];
