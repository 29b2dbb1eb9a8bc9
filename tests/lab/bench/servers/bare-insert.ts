// The limit of create_api_key: the same row into the same table, durably, with the same driver, and nothing else.
// Argument: the database's path.

import { hash, randomBytes } from 'node:crypto';
import { createClient } from '@libsql/client/sqlite3';
import { announce } from './announce.ts';

const client = createClient({ url: `file:${process.argv[2]}`, concurrency: 1, timeout: 5000 });
await client.execute('PRAGMA synchronous = FULL');
const INSERT = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms, expires_at_ms)
VALUES (?, ?, ?, ?, ?, 1, ?, NULL)`;
/** Owners in turn, as many as the benchmark has tokens, so that the index grows in as many places. */
const USERS = 2000;

let count = 0;

announce(
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { name, scopes } = (await request.json()) as { name: string; scopes: string[] };
      count += 1;
      const id = randomBytes(16).toString('hex');
      const key = `sk_test_${randomBytes(32).toString('hex')}`;
      const args = [id, `user-${count % USERS}`, name, hash('sha256', key, 'hex'), JSON.stringify(scopes), Date.now()];
      await client.execute({ sql: INSERT, args });
      return new Response(JSON.stringify({ id, key, name, scopes, expiresAt: null }), {
        headers: { 'Content-Type': 'application/json' },
      });
    },
  }),
);
