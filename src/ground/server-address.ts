// Under which address this server is. PUBLIC_URL, where it is set, is its only name. Without it a request is answered
// under the name under which it came, if that is a loopback name, an IP address or a host of ALLOWED_HOSTS, and else
// under the address that the server listens on. Nothing here is believed that a proxy or another header says.

import { memoize } from './cache.ts';
import { isAddress, isLoopback } from './ip.ts';

export interface ServerAddress {
  /** Returns the URL of this server for a request, by its Host; null: it has none, or one of another server. */
  urlUnder(host: string | null, isSecure: boolean): string;
  /** PUBLIC_URL, or else the address that it listens on, as this machine reaches it; no slash at the end. */
  readonly url: string;
  /** The path of `url`: empty or `/…`. */
  readonly path: string;
  /** The origins by which it is known whatever a request says; of an address of loopback under each of its names. */
  readonly origins: readonly string[];
  /** What the version before bound its keys to, if it had this configuration. */
  readonly urlBefore: string;
}

export interface ServerAddressOptions {
  /** PUBLIC_URL; null: not set. */
  readonly publicUrl: string | null;
  /** The origin that it listens on (listeningOrigin). */
  readonly listening: string;
  readonly basePath: string;
  /** Lower-case names without port. */
  readonly allowedHosts: readonly string[] | null;
}

/** Names by which a machine calls itself. */
const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];

/** Addresses that mean each address of the machine, and how it calls itself. */
const EVERYWHERE = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['[::]', '[::1]'],
]);

/** Returns the origin that a server listens on, by what HOST and PORT say. */
export const listeningOrigin = ({ host, tls }: { host: string; tls: object | null }, port: number): string =>
  `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;

export function createServerAddress(options: ServerAddressOptions): ServerAddress {
  const { publicUrl, listening, basePath, allowedHosts } = options;
  const urlBefore = publicUrl ?? listening + basePath;
  if (publicUrl !== null) {
    const { origin, pathname } = new URL(publicUrl);
    const path = pathname.replace(/^\/$/, '');
    return { urlUnder: () => publicUrl, url: publicUrl, path, origins: [origin], urlBefore };
  }
  const { protocol, hostname, port } = new URL(listening);
  const reached = EVERYWHERE.get(hostname) ?? hostname;
  const originAt = (name: string) => canonicalUrl(`${protocol}//${name}${port && `:${port}`}`);
  const url = originAt(reached) + basePath;
  const named = memoize((origin: string) => {
    const name = nameIn(origin);
    const isOwn = name !== null && (isLoopback(name) || isAddress(name) || allowedHosts?.includes(name) === true);
    return isOwn ? canonicalUrl(origin) + basePath : url;
  });
  return {
    urlUnder: (host, isSecure) => (host === null ? url : named(`${isSecure ? 'https' : 'http'}://${host}`)),
    url,
    path: basePath,
    origins: (isLoopback(reached) ? [...new Set([reached, ...LOOPBACK])] : [reached]).map(originAt),
    urlBefore,
  };
}

/** A host and a port, of characters that mean nothing else in a URL, a header or a page. */
const ORIGIN = /^https?:\/\/(?:[a-z\d.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i;

/** Returns the host as a URL parser reads it, so that an address has one spelling; null: there is none. */
const nameIn = (origin: string): string | null =>
  ORIGIN.test(origin) ? (URL.parse(origin)?.hostname.toLowerCase() ?? null) : null;

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': ':80', 'https:': ':443' };

/**
 * Returns a URL so that equal ones are spelled alike (RFC 3986 §6.2): scheme and host in lower case, without a default
 * port and a slash at the end. The path and the spelling of an address stay as they are.
 */
export function canonicalUrl(url: string): string {
  const [, scheme = '', authority = '', rest = ''] = /^([a-z][a-z\d+.-]*:)\/\/([^/?#]*)(.*)$/is.exec(url) ?? [];
  if (scheme === '') return url;
  const lower = authority.toLowerCase();
  const port = DEFAULT_PORTS[scheme.toLowerCase()];
  const host = port !== undefined && lower.endsWith(port) ? lower.slice(0, -port.length) : lower.replace(/:$/, '');
  return `${scheme.toLowerCase()}//${host}${rest}`.replace(/\/$/, '');
}
