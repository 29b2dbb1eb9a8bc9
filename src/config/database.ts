// Where the keys are: a file, or a remote database with or without a replica of it.

import { isLoopback } from '../lib/ip.ts';
import type { EnvReader } from './env.ts';
import { shownUrl } from './urls.ts';

export interface RemoteConfig {
  readonly mode: 'remote';
  readonly url: string;
  readonly authToken: string | null;
  readonly replicaFile: string | null;
}

export type DatabaseConfig = { readonly mode: 'embedded'; readonly path: string } | RemoteConfig;

/** What may follow `Bearer `: a little more than RFC 9110 §11.4 allows. */
export const HEADER_TEXT = /^[\x21-\x7e]+$/;

export function databaseConfig({ text, fault }: EnvReader, production: boolean): DatabaseConfig {
  const url = text('DATABASE_URL') ?? 'file:./data/keys.db';
  const authToken = text('DATABASE_AUTH_TOKEN');
  const replicaFile = text('DATABASE_REPLICA_FILE');
  if (authToken !== null && !HEADER_TEXT.test(authToken)) {
    fault('DATABASE_AUTH_TOKEN', 'printable ASCII on one line (the value is not shown)');
  }
  if (/^(https?|libsql):\/\/[^/]/i.test(url) && URL.canParse(url)) {
    if (production && sendsInClear(new URL(url), authToken)) {
      const expected =
        'an https or libsql URL (http and tls=0 on loopback only) in production, because a credential is sent';
      fault('DATABASE_URL', expected, shownUrl(url));
    }
    return { mode: 'remote', url, authToken, replicaFile };
  }
  const path = filePath(url);
  if (path === null) {
    fault('DATABASE_URL', 'file:<path>, http(s)://… or libsql://…', shownUrl(url));
  } else if (replicaFile !== null) {
    fault('DATABASE_REPLICA_FILE', 'a remote DATABASE_URL beside it', replicaFile);
  }
  return { mode: 'embedded', path: path ?? '' };
}

/** A credential over plain HTTP, for anybody on the way to read. The driver takes one, and `tls`, from the URL too. */
function sendsInClear(
  { protocol, username, password, hostname, searchParams }: URL,
  authToken: string | null,
): boolean {
  const isSent = authToken !== null || searchParams.has('authToken') || username !== '' || password !== '';
  const isClear = protocol === 'http:' || searchParams.getAll('tls').includes('0');
  return isSent && isClear && !isLoopback(hostname.toLowerCase());
}

// Accepts file:./x, file:x, file:/x and file:///x, but no in-memory database: it would lose acknowledged writes.
function filePath(url: string): string | null {
  const path = /^file:(?:\/\/(?=\/))?([^?#]+)$/.exec(url)?.[1];
  if (path === undefined || path.startsWith('//') || path.startsWith(':memory:') || path.endsWith('/')) return null;
  try {
    return decodeURIComponent(path);
  } catch {
    return null;
  }
}
