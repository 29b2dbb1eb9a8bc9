// A remote store whose responses come as late as a test wants: a key is read, found good, and revoked before the server
// learns what was read.

import { createClient } from '@libsql/client';
import { startProxy } from './proxy.ts';
import { storeOn, type TestStore } from './store-mode.ts';
import { startPrimary } from './template.ts';

export interface SlowStore extends AsyncDisposable {
  readonly store: TestStore;
  /** The next read of this key: `made` resolves when the store has responded, which arrives after `release`. */
  delayReadOf(key: string): { readonly made: Promise<void>; release(): void };
  /** The same of the next statement with this text. */
  delayResponseTo(text: string): { readonly made: Promise<void>; release(): void };
  /** Revokes an owner's keys behind the server's back. */
  revoke(owner: string): Promise<void>;
  /** Reactivates them, behind the server's back. */
  restore(owner: string): Promise<void>;
  /** Gives an owner's keys to another owner, with these scopes, until a moment, behind the server's back. */
  handOver(
    owner: string,
    to: { readonly owner: string; readonly scope: string; readonly endsAtMs: number },
  ): Promise<void>;
}

export async function startSlowStore(): Promise<SlowStore> {
  const sqld = await startPrimary();
  const proxy = await startProxy(sqld.url);
  async function execute(sql: string, args: (string | number)[]): Promise<void> {
    const db = createClient({ url: sqld.url });
    await db.execute({ sql, args });
    db.close();
  }
  return {
    store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }),
    delayReadOf: (key) => proxy.delayResponseTo(Bun.SHA256.hash(key, 'hex')),
    delayResponseTo: proxy.delayResponseTo,
    restore: (owner) => execute('UPDATE api_keys SET active = 1 WHERE user_id = ?', [owner]),
    revoke: (owner) => execute('UPDATE api_keys SET active = 0 WHERE user_id = ?', [owner]),
    handOver: (from, { owner, scope, endsAtMs }) =>
      execute('UPDATE api_keys SET user_id = ?, scopes = ?, expires_at_ms = ? WHERE user_id = ?', [
        owner,
        JSON.stringify([scope]),
        endsAtMs,
        from,
      ]),
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await sqld.stop();
    },
  };
}
