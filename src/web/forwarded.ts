// Reads what the trusted proxies in front say about a request. Each proxy appends one entry to a list, so the outermost
// of n proxies wrote the n-th from the end. Earlier entries came with the request and may be forged.

import { redact, redactKeys } from '../watch/redact.ts';

/**
 * Returns the client's protocol. If the list is shorter than the chain of proxies, its first entry counts: a proxy may
 * replace the list.
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
 * The longest address, in characters, that budgets and key events keep. If TRUST_PROXY is too high, it may be any text.
 */
const ADDRESS_CHARS_MAX = 64;

/** Returns the request id that a proxy set; null if it is missing, unfit for a log, or contains a key. */
export function forwardedRequestId(headers: Headers): string | null {
  const id = headers.get('x-request-id');
  return id !== null && REQUEST_ID.test(id) && redactKeys(id) === id ? id : null;
}

/**
 * Returns the path that a proxy asks about, for the log. The query may hold secrets, so it is left out. Secrets in the
 * path are redacted before it is cut, because half a key may not look like one.
 */
export function forwardedPath(headers: Headers): string | undefined {
  const path = headers.get('x-forwarded-uri')?.split(/[?#]/, 1)[0];
  return path?.startsWith('/') ? redact(path).slice(0, PATH_CHARS_MAX) : undefined;
}

/** Long enough to tell one call from another. */
const PATH_CHARS_MAX = 500;

const REQUEST_ID = /^[\w.-]{1,128}$/;

/** Matches `192.0.2.7:50123`, `[2001:db8::7]:50123`, and the brackets alone. */
const WITH_PORT = /^(?:([\d.]+):\d+|\[([^\]]+)\](?::\d+)?)$/;

const entriesOf = (list: string | null): string[] => list?.split(',').map((entry) => entry.trim()) ?? [];
