// A remote store whose responses come as late as a test wants: a key is read, found good, and revoked before the server
// learns what was read.

import { executeAt } from './database-client.ts';
import { startProxy } from './proxy.ts';
import { storeOn } from './store-mode.ts';
import { startPrimary } from './template.ts';

export type SlowStore = Awaited<ReturnType<typeof startSlowStore>>;

export async function startSlowStore() {
  const sqld = await startPrimary();
  const proxy = await startProxy(sqld.url);
  /** Behind the server's back. */
  const execute = (sql: string, ...args: (string | number)[]) => executeAt(sqld.url, { sql, args });
  return {
    execute,
    store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }),
    /** The next read of this key: `made` resolves when the store has responded, which arrives after `release`. */
    delayReadOf: (key: string) => proxy.delayResponseTo(Bun.SHA256.hash(key, 'hex')),
    /** The same of the next statement with this text. */
    delayResponseTo: proxy.delayResponseTo,
    /** From now on the connection of each statement with this text dies; with null, no longer. */
    refuse: proxy.refuse,
    /** How many requests had this text. */
    sent: proxy.sent,
    /** Reactivates an owner's keys. */
    restore: (owner: string) => execute('UPDATE api_keys SET active = 1 WHERE user_id = ?', owner),
    revoke: (owner: string) => execute('UPDATE api_keys SET active = 0 WHERE user_id = ?', owner),
    /** Gives an owner's keys to another owner, with a scope, until a moment. */
    handOver: (from: string, { owner, scope, endsAtMs }: { owner: string; scope: string; endsAtMs: number }) =>
      execute(
        'UPDATE api_keys SET user_id = ?, scopes = ?, expires_at_ms = ? WHERE user_id = ?',
        owner,
        JSON.stringify([scope]),
        endsAtMs,
        from,
      ),
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await sqld.kill();
    },
  };
}
