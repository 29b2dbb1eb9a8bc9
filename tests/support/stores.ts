// A store, opened, without an app; and a database without a store.

import { randomBytes } from 'node:crypto';
import { type ApiKeyRecord, NEW_KEY } from '../../src/keys/record.ts';
import { createLog } from '../../src/start/package/index.ts';
import { openStore } from '../../src/store/open.ts';
import { remoteDatabase } from '../../src/store/remote/database.ts';
import { testClock } from './clock.ts';

export type { Database, Statement } from '../../src/store/database.ts';
export { embeddedDatabase } from '../../src/store/embedded/database.ts';

export const remoteDatabaseAt = (url: string) =>
  remoteDatabase({ mode: 'remote', url, authToken: null, replicaFile: null });

/** What is kept of a key that was made just now, but for what is `own` to it. */
export const record = (own: Partial<ApiKeyRecord> = {}): ApiKeyRecord => ({
  ...NEW_KEY,
  id: randomBytes(16).toString('hex'),
  userId: 'alice',
  name: 'n',
  keyHash: randomBytes(32).toString('hex'),
  scopes: [],
  createdAtMs: 1,
  expiresAtMs: null,
  ...own,
});

/** As of when counts are read, where they don't matter. */
export const AS_OF = { nowMs: 0, key: { windowS: 0, hasMonth: false }, owner: null, exchanged: 0 };

export const openEmbedded = (path: string) => open({ mode: 'embedded', path });

export const openRemote = (url: string) => open({ mode: 'remote', url, authToken: null, replicaFile: null });

async function open(config: Parameters<typeof openStore>[0]) {
  const clock = testClock();
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const store = await openStore(config, { clock, log });
  const { db, close } = store;
  return { db, store, close, [Symbol.asyncDispose]: close };
}
