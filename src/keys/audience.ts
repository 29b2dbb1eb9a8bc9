// Which server a key is good for (RFC 8707): a bound key is good for one, any other key for all. This server has several
// addresses, so what is bound to it is kept under one name, and what is bound to another under that one's URL.

import { canonicalUrl, type ServerAddress } from '../ground/server-address.ts';
import type { Caller } from './actor.ts';

/** The name of this server, as it is stored. It is no URL, so nobody can send it. */
export const THIS_SERVER = 'self';

/** Paths below its URL by which this server is also called: its MCP transports. */
const OWN_PATHS = ['', '/mcp', '/sse'];

/** The servers that keys may be bound to, as one request may call them. */
export interface BindableServers {
  /** This server, as the request calls it. */
  readonly url: string;
  /** What may be given as a resource: this server, and the others. */
  readonly urls: readonly string[];
  /** Returns the stored name of a resource that was sent; null: it is of no server that keys may be bound to. */
  nameOf(resource: string): string | null;
}

export interface Audience {
  /** Returns the servers as a request sees them; undefined: what no request asks for. */
  serversFor(publicUrl: string | undefined): BindableServers;
  /** Returns the stored name of what was stored: the version before stored an address of this server. */
  stored(name: string): string;
  /** Returns whether keys may be bound to a stored name. */
  has(name: string): boolean;
  /** Returns whether a key bound to a stored name (null: to none) is good for all servers that it is presented for. */
  admits(name: string | null, caller: Pick<Caller, 'resources' | 'publicUrl'>): boolean;
}

/** Returns a stored name as people and clients are told: this server by the URL by which they call it. */
export const shownServer = (name: string, url: string): string => (name === THIS_SERVER ? url : name);

/** Creates the check of a key’s server. `others`: URLs without a slash at the end. */
export function createAudience(address: ServerAddress, others: readonly string[]): Audience {
  const spelled = new Map(others.map((url) => [canonicalUrl(url), url]));
  // A request chooses its Host: what no request says comes first, so that none makes another server this one.
  const fixed = new Set([address.url, address.urlBefore].flatMap(ownUrls));

  function nameOf(resource: string, publicUrl: string | undefined): string | null {
    const url = canonicalUrl(resource);
    if (fixed.has(url)) return THIS_SERVER;
    const other = spelled.get(url);
    if (other !== undefined) return other;
    return publicUrl !== undefined && ownUrls(publicUrl).includes(url) ? THIS_SERVER : null;
  }

  const stored = (name: string): string => (fixed.has(canonicalUrl(name)) ? THIS_SERVER : name);

  return {
    serversFor: (publicUrl) => {
      const url = publicUrl ?? address.url;
      return { url, urls: [url, ...others], nameOf: (resource) => nameOf(resource, publicUrl) };
    },
    stored,
    has: (name) => name === THIS_SERVER || others.includes(name),
    admits(name, caller) {
      if (name === null) return true;
      const server = stored(name);
      const { resources } = caller;
      if (resources === undefined) return server === THIS_SERVER;
      const { publicUrl } = caller;
      return resources.every((resource) => (nameOf(resource, publicUrl) ?? canonicalUrl(resource)) === server);
    },
  };
}

const ownUrls = (url: string): readonly string[] => OWN_PATHS.map((path) => canonicalUrl(url) + path);
