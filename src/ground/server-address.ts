// Determines the server's own URL. PUBLIC_URL, if set, is its only name. Otherwise a request is answered under the host
// that it names, if that is a loopback name, an IP address or a host of ALLOWED_HOSTS; if not, under the address that the
// server listens on. Forwarded headers are never believed here.

import { memoize } from './cache.ts';
import { isAddress, isLoopback } from './ip.ts';

export interface ServerAddress {
  /** Returns the server's URL for a request with this Host header; null: the request has none. */
  urlUnder(host: string | null, isSecure: boolean): string;
  /** PUBLIC_URL, or the address that it listens on, as this machine reaches it; without a trailing slash. */
  readonly url: string;
  /** The path of `url`: empty or `/…`. */
  readonly path: string;
  /** The origins known without a request; for a loopback address, those of all loopback names. */
  readonly origins: readonly string[];
}

interface AddressSettings {
  /** PUBLIC_URL; null: not set. */
  readonly publicUrl: string | null;
  readonly host: string;
  readonly port: number;
  readonly tls: object | null;
  readonly basePath: string;
  /** Lower-case names without port. */
  readonly allowedHosts: readonly string[] | null;
}

/** Paths below a server's URL that name it, too: it as a whole, and its MCP transports. */
export const OWN_PATHS = ['', '/mcp', '/sse'] as const;

/** Names by which a machine calls itself. */
const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];

/** Wildcard addresses, with the loopback address that reaches them. */
const EVERYWHERE = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['[::]', '[::1]'],
]);

/** Returns the origin that a server listens on, from HOST and PORT. */
export const listeningOrigin = ({ host, tls }: { host: string; tls: object | null }, port: number): string =>
  `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;

/** Creates the address. `listening` is the origin that the server listens on. */
export function createServerAddress(
  settings: AddressSettings,
  listening = listeningOrigin(settings, settings.port),
): ServerAddress {
  const { publicUrl, basePath, allowedHosts } = settings;
  if (publicUrl !== null) {
    const { origin, pathname } = new URL(publicUrl);
    const path = pathname.replace(/^\/$/, '');
    return { urlUnder: () => publicUrl, url: publicUrl, path, origins: [origin] };
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
  };
}

/** A host and port, only of characters that are harmless in a URL, a header or a page. */
const ORIGIN = /^https?:\/\/(?:[a-z\d.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i;

/** Returns the host normalized by the URL parser, so that an address has one spelling; null: no valid origin. */
const nameIn = (origin: string): string | null => (ORIGIN.test(origin) ? (URL.parse(origin)?.hostname ?? null) : null);

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'http:': ':80', 'https:': ':443' };

/**
 * Normalizes a URL for comparison (RFC 3986 §6.2): lowercases scheme and host, and drops a default port and a trailing
 * slash. The path and the spelling of an address stay.
 */
export function canonicalUrl(url: string): string {
  const [, scheme = '', authority = '', rest = ''] = /^([a-z][a-z\d+.-]*:)\/\/([^/?#]*)(.*)$/is.exec(url) ?? [];
  if (scheme === '') return url;
  const lower = authority.toLowerCase();
  const port = DEFAULT_PORTS[scheme.toLowerCase()];
  const host = port !== undefined && lower.endsWith(port) ? lower.slice(0, -port.length) : lower.replace(/:$/, '');
  return `${scheme.toLowerCase()}//${host}${rest}`.replace(/\/$/, '');
}
