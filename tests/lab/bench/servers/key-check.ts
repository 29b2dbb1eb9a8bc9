// The key check that the SDK's servers do here: hash, one SELECT in the database whose path is the first argument.

import { hash } from 'node:crypto';
import { createClient } from '@libsql/client/sqlite3';

const FIND = 'SELECT id, user_id, name, scopes, expires_at_ms FROM api_keys WHERE key_hash = ? AND active = 1';

export interface CheckedKey {
  readonly owner: string;
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly string[];
}

export type CheckKey = (request: Request) => Promise<CheckedKey | null>;

export function openKeyCheck(): CheckKey {
  const client = createClient({ url: `file:${process.argv[2]}`, concurrency: 1, timeout: 5000 });
  return async (request) => {
    const key = request.headers.get('x-api-key');
    if (key === null) return null;
    const { rows } = await client.execute({ sql: FIND, args: [hash('sha256', key, 'hex')] });
    const row = rows[0];
    if (row === undefined || (row.expires_at_ms !== null && Number(row.expires_at_ms) < Date.now())) return null;
    return {
      owner: String(row.user_id),
      id: String(row.id),
      name: String(row.name),
      scopes: JSON.parse(String(row.scopes)) as string[],
    };
  };
}

export const refused = () => new Response('Invalid or expired API key', { status: 401 });
