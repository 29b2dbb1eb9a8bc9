// Opening a remote database: at the start if it answers, else when it first does.

import type { DatabaseConfig } from '../config.ts';
import type { Log } from '../log.ts';
import { type Answered, type Database, unavailable } from './database.ts';
import { createKeyStore } from './key-store.ts';
import { openingDatabase } from './opening.ts';
import { remoteDatabase } from './remote.ts';
import { migrate, unwrap } from './schema.ts';

/** The start waits this long for a primary that hangs, then goes on without it. */
const START_WAIT_MS = 2000;

/** Changes nothing, and is refused where the token may only read. */
const WRITE_PROBE = { sql: 'UPDATE feed SET pruned_seq = pruned_seq WHERE one = 0', args: [] };

export async function openRemote(config: Extract<DatabaseConfig, { mode: 'remote' }>, log: Log) {
  const db = openingDatabase({ db: await remoteDatabase(config), prepare, log });
  try {
    const opened = await Promise.race([db.open(), startWait()]);
    // A wrong token or address doesn't heal; a primary that is away does, and everything else works meanwhile.
    if (!opened.ok && opened.error.outage === 'refused') throw new Error(opened.error.reason);
    if (!opened.ok) log.warn('database not opened', { reason: opened.error.reason });
  } catch (error) {
    db.close();
    throw error;
  }
  return {
    store: createKeyStore({ primary: db }),
    mode: 'remote' as const,
    close: async () => db.close(),
  };
}

async function prepare(db: Database): Promise<void> {
  await migrate(db);
  const probed = await db.write(WRITE_PROBE);
  if (!probed.ok && probed.error.outage === 'refused') unwrap(probed); // blocked by its operator: reading goes on
}

const startWait = (): Answered<void> =>
  new Promise((resolve) => {
    const error = unavailable('unreachable', `no answer within ${START_WAIT_MS} ms`);
    setTimeout(resolve, START_WAIT_MS, { ok: false, error });
  });
