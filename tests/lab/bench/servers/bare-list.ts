// The limit of list_api_keys: the same SELECT with the same driver, its rows as JSON, and nothing else.
// Arguments: the database's path, the user.

import { createClient } from '@libsql/client/sqlite3';
import { announce } from './announce.ts';

const [path, userId = ''] = process.argv.slice(2);
const client = createClient({ url: `file:${path}`, concurrency: 1, timeout: 5000 });
const LIST = `SELECT k.*, coalesce(u.last_used_at_ms, k.last_used_at_ms) AS used_at_ms
FROM api_keys k LEFT JOIN key_uses u USING (row) WHERE user_id = ? ORDER BY created_at_ms DESC, row DESC`;

announce(
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      await request.json();
      const { rows } = await client.execute({ sql: LIST, args: [userId] });
      const keys = rows.map((row) => ({
        id: row.id,
        name: row.name,
        scopes: JSON.parse(String(row.scopes)) as unknown,
        active: row.active === 1,
        createdAt: row.created_at_ms,
        expiresAt: row.expires_at_ms,
        lastUsedAt: row.used_at_ms ?? undefined,
      }));
      return new Response(JSON.stringify({ keys }), { headers: { 'Content-Type': 'application/json' } });
    },
  }),
);
