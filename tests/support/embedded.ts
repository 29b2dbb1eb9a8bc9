// A store, opened, without an app; and a database without a store.

import { createLog } from '../../src/start/package/index.ts';
import { openStore } from '../../src/store/open.ts';
import { remoteDatabase } from '../../src/store/remote/database.ts';
import { testClock } from './clock.ts';

export type { Database, Statement } from '../../src/store/database.ts';
export { embeddedDatabase } from '../../src/store/embedded/database.ts';

export const remoteDatabaseAt = (url: string) =>
  remoteDatabase({ mode: 'remote', url, authToken: null, replicaFile: null });

/** What a record has that none asks for. */
export { NEW_KEY } from '../../src/keys/record.ts';

export const openEmbedded = (path: string) => open({ mode: 'embedded', path });

export const openRemote = (url: string) => open({ mode: 'remote', url, authToken: null, replicaFile: null });

async function open(config: Parameters<typeof openStore>[0]) {
  const clock = testClock();
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const store = await openStore(config, { clock, log, eventDays: 400, usageDays: 31 });
  return { db: store.db, store, close: store.close };
}
