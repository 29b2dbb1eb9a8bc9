// Opening a remote database: at the start if it answers, else when it first does.

import { type RemoteConfig, shownUrl } from '../config.ts';
import type { Log } from '../log.ts';
import { type Database, unwrap } from './database.ts';
import { createKeyStore } from './key-store.ts';
import { openingDatabase } from './opening.ts';
import { remoteDatabase } from './remote.ts';
import { migrate } from './schema.ts';

/** The start waits this long for a primary that hangs, then goes on without it. */
const START_WAIT_MS = 2000;

/** They take 2 ms of the primary's time. Many at once, because it may be far away; to wait for it holds up nothing. */
const USES_PER_WRITE = 1000;

/** Changes nothing, and is refused where the token may only read. */
const WRITE_PROBE = { sql: 'UPDATE feed SET pruned_seq = pruned_seq WHERE one = 0' };

export async function openRemote(config: RemoteConfig, log: Log) {
  const remote = await remoteDatabase(config);
  const replica = config.replicaFile === null ? null : await replicaOf(remote, config, config.replicaFile, log);
  const db = openingDatabase({ db: remote, prepare, log, onOpen: () => replica?.open() });
  try {
    const opened = await db.open(START_WAIT_MS);
    // A wrong token or address doesn't heal; a primary that is away does, and everything else works meanwhile.
    if (!opened.ok && opened.error.outage === 'refused')
      throw new Error(`${opened.error.reason} (${shownUrl(config.url)})`);
  } catch (error) {
    db.close();
    throw error;
  }
  return {
    store: createKeyStore({ primary: db, usesPerWrite: USES_PER_WRITE, ...(replica && { near: replica }) }),
    mode: replica === null ? ('remote' as const) : ('replica' as const),
    async close() {
      db.close();
      await replica?.close();
    },
  };
}

/** Not open yet: opening hangs while the primary does, so that comes after the primary has answered. */
async function replicaOf(primary: Database, { url, authToken }: RemoteConfig, file: string, log: Log) {
  const { createReplica } = await import('./replica.ts');
  return createReplica({
    source: { file, url, authToken },
    readPrimary: (statement) => primary.read(statement).then((rows) => (rows.ok ? rows.value : null)),
    log,
  });
}

async function prepare(db: Database): Promise<void> {
  await migrate(db);
  const probed = await db.write(WRITE_PROBE);
  if (!probed.ok && probed.error.outage === 'refused') unwrap(probed); // blocked by its operator: reading goes on
}
