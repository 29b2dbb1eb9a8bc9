// Parses DATABASE_URL to a place, and checks it together with the token and the replica file.

import { isLoopback } from '../ground/ip.ts';
import type { NoteFault } from '../ground/text.ts';
import { parseUrl, shownUrl } from '../ground/urls.ts';
import type { DatabaseConfig, EmbeddedConfig, RemoteConfig } from '../store/database.ts';

type DatabasePlace = EmbeddedConfig | Pick<RemoteConfig, 'mode' | 'url'>;

export function databasePlace(url: string): DatabasePlace | null {
  if (/^(https?|libsql):\/\/[^/]/i.test(url) && parseUrl(url)) return { mode: 'remote', url };
  const path = filePath(url);
  return path === null ? null : { mode: 'embedded', path };
}

export function databaseConfig(
  place: DatabasePlace,
  { authToken, replicaFile }: Pick<RemoteConfig, 'authToken' | 'replicaFile'>,
  production: boolean,
  fault: NoteFault,
): DatabaseConfig {
  if (place.mode === 'embedded') {
    if (replicaFile !== null) fault('DATABASE_REPLICA_FILE', 'a remote DATABASE_URL beside it', replicaFile);
    return place;
  }
  if (production && sendsInClear(new URL(place.url), authToken)) {
    const what = 'an https or libsql URL (http and tls=0 on loopback only) in production, because a credential is sent';
    fault('DATABASE_URL', what, shownUrl(place.url));
  }
  return { ...place, authToken, replicaFile };
}

/** Returns whether a credential would be sent over plain HTTP. The driver also reads one, and `tls`, from the URL. */
function sendsInClear(
  { protocol, username, password, hostname, searchParams }: URL,
  authToken: string | null,
): boolean {
  const isSent = authToken !== null || searchParams.has('authToken') || username !== '' || password !== '';
  const isClear = protocol === 'http:' || searchParams.getAll('tls').includes('0');
  return isSent && isClear && !isLoopback(hostname.toLowerCase());
}

// Accepts file:./x, file:x, file:/x and file:///x, but no in-memory database, which would lose acknowledged writes.
function filePath(url: string): string | null {
  const path = /^file:(?:\/\/(?=\/))?([^?#]+)$/.exec(url)?.[1];
  if (path === undefined) return null;
  try {
    const decoded = decodeURIComponent(path);
    return namesFile(decoded) ? decoded : null;
  } catch {
    return null;
  }
}

/** Returns the path of a replica's file; null for a folder, a URL, or an in-memory database. */
export const replicaPath = (path: string): string | null => (namesFile(path) && !path.includes('://') ? path : null);

/**
 * Returns whether SQLite, too, takes a path for a file: it has names for in-memory databases, and accepts URIs. Space at an
 * end, as of a line that ends in CR LF, would name another database.
 */
const namesFile = (path: string): boolean => !/^(?:\s|:memory:|file:|\/\/)|\0|[\s/]$/.test(path);
