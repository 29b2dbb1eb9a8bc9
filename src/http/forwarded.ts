// What the trusted proxies in front say about the request. Each adds one entry to a list: of n proxies the outermost
// wrote the n-th from the end. Entries before that came with the request, and anybody may have made them up.

import { redactKeys } from '../log/redact.ts';

/** The protocol that the client spoke. Proxies may also replace the list with one entry, so the first will do. */
export function forwardedProto(headers: Headers, proxies: number): string | null {
  const entries = entriesOf(headers.get('x-forwarded-proto'));
  return (entries.at(-proxies) ?? entries[0])?.toLowerCase() || null;
}

/** The address of the client of the outermost proxy, without the port that some proxies add. */
export function forwardedFor(headers: Headers, proxies: number): string | null {
  const address = entriesOf(headers.get('x-forwarded-for')).at(-proxies);
  if (!address || address.length > ADDRESS_CHARS_MAX) return null;
  const [, ipv4, ipv6] = WITH_PORT.exec(address) ?? [];
  return ipv4 ?? ipv6 ?? address;
}

/** Budgets and the trail of changes keep addresses: with TRUST_PROXY too high, this may be any text. */
const ADDRESS_CHARS_MAX = 64;

/** The id that a proxy gave the request; null if it gave none that a log could take, or took a key for one. */
export function forwardedRequestId(headers: Headers): string | null {
  const id = headers.get('x-request-id');
  return id !== null && REQUEST_ID.test(id) && redactKeys(id) === id ? id : null;
}

/** The path of the request that a proxy asks about, without its query, which may hold anything; for the log. */
export function forwardedPath(headers: Headers): string | undefined {
  const path = headers.get('x-forwarded-uri')?.split(/[?#]/, 1)[0];
  return path?.startsWith('/') ? path.slice(0, PATH_CHARS_MAX) : undefined;
}

/** Enough for any path that tells one call from another. */
const PATH_CHARS_MAX = 500;

const REQUEST_ID = /^[\w.-]{1,128}$/;

/** `192.0.2.7:50123`, `[2001:db8::7]:50123`, and the brackets alone. */
const WITH_PORT = /^(?:([\d.]+):\d+|\[([^\]]+)\](?::\d+)?)$/;

const entriesOf = (list: string | null): string[] => list?.split(',').map((entry) => entry.trim()) ?? [];
