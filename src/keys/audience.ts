// Decides which server a key is good for (RFC 8707): a bound key for one, any other key for all. This server has
// several addresses, so a key bound to it stores one name for it; a key bound to another stores that server's URL.

import { canonicalUrl, OWN_PATHS, type ServerAddress } from '../ground/server-address.ts';
import type { Caller } from './actor.ts';

/** The stored name of this server. It is no URL, so no client can send it. */
export const THIS_SERVER = 'self';

export type Audience = ReturnType<typeof createAudience>;
/** The servers that keys may be bound to, as one request addresses them. */
export type BindableServers = ReturnType<Audience['serversFor']>;

/** Returns a stored name as people and clients see it: this server by the URL at which they address it. */
export const shownServer = (name: string, url: string): string => (name === THIS_SERVER ? url : name);

/** Creates the check of a key's server. `others`: URLs without a trailing slash. */
export function createAudience(address: ServerAddress, others: readonly string[]) {
  const spelled = new Map(others.map((url) => [canonicalUrl(url), url]));
  // A request chooses its Host, so fixed names are compared first: no Host can make another server this one.
  const fixed = new Set(ownUrls(address.url));

  function nameOf(resource: string, publicUrl: string | undefined): string | null {
    const url = canonicalUrl(resource);
    if (fixed.has(url)) return THIS_SERVER;
    const other = spelled.get(url);
    if (other !== undefined) return other;
    return publicUrl !== undefined && ownUrls(publicUrl).includes(url) ? THIS_SERVER : null;
  }

  return {
    /** Returns the servers as a request addresses them; undefined: outside a request. */
    serversFor(publicUrl: string | undefined) {
      const url = publicUrl ?? address.url;
      return {
        url,
        /** What may be given as a resource: this server, and the others. */
        urls: [url, ...others],
        /** Returns the stored name of a resource that was sent, or null if keys can't be bound to it. */
        nameOf: (resource: string) => nameOf(resource, publicUrl),
      };
    },
    /** Returns whether keys may be bound to a stored name. */
    has: (name: string): boolean => name === THIS_SERVER || others.includes(name),
    /** Returns whether a key bound to a stored name (null: to none) is good for all servers it is presented for. */
    admits(name: string | null, caller: Pick<Caller, 'resources' | 'publicUrl'>): boolean {
      const { resources } = caller;
      if (name === null || resources === 'any') return true;
      if (resources === undefined || resources.length === 0) return name === THIS_SERVER;
      const { publicUrl } = caller; // only now: most calls need no Host
      return resources.every((resource) => (nameOf(resource, publicUrl) ?? canonicalUrl(resource)) === name);
    },
  };
}

const ownUrls = (url: string): readonly string[] => OWN_PATHS.map((path) => canonicalUrl(url) + path);
