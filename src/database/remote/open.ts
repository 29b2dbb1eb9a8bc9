// Opens a remote database: at start-up if it responds, else when it first does.

import type { RemoteConfig } from '../../config/database.ts';
import { shownUrl } from '../../config/urls.ts';
import type { Clock } from '../../lib/runtime.ts';
import type { Log } from '../../log/log.ts';
import { type Database, unwrap } from '../database.ts';
import { migrate, WRITE_PROBE } from '../schema.ts';
import { remoteDatabase } from './database.ts';
import { lazyDatabase } from './reopening.ts';

/** The start waits this long for a primary that hangs, then goes on without it. */
const START_WAIT_MS = 2000;

export interface RemoteOptions {
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * This many take 2 ms of the primary's time. Many at once, because it may be far away, and waiting holds up nothing.
 */
const USES_PER_WRITE = 1000;

/** The remote database, and what opens it. */
export async function remoteStore(
  config: RemoteConfig,
  watch: <T extends Database>(db: T) => T,
  options: RemoteOptions,
) {
  const { log } = options;
  const remote = await remoteDatabase(config);
  const replica = config.replicaFile === null ? null : await replicaOf(remote, config, config.replicaFile, options);
  const lazy = lazyDatabase({ db: remote, prepare, log, onOpen: () => replica?.open() });
  const db = watch<Database>(lazy);
  return {
    db,
    usesPerWrite: USES_PER_WRITE,
    replica,
    async open() {
      const opened = await lazy.open(START_WAIT_MS);
      // A wrong token or address doesn't heal; a primary that is away does, and everything else works meanwhile.
      if (!opened.ok && opened.error.outage === 'refused')
        throw new Error(`${opened.error.reason} (${shownUrl(config.url)})`);
    },
    async close() {
      db.close();
      await replica?.close();
    },
  };
}

/**
 * The replica, not open yet: opening hangs while the primary does, so it has to wait until the primary has responded.
 */
async function replicaOf(primary: Database, { url, authToken }: RemoteConfig, file: string, options: RemoteOptions) {
  const { createReplica } = await import('../replica/replica.ts');
  return createReplica({
    source: { file, url, authToken },
    readPrimary: (statement) => primary.read(statement).then((rows) => (rows.ok ? rows.value : null)),
    ...options,
  });
}

async function prepare(db: Database): Promise<void> {
  await migrate(db);
  const probed = await db.write(WRITE_PROBE);
  // Any other failure, such as a block by the operator, lets reading go on.
  if (!probed.ok && probed.error.outage === 'refused') unwrap(probed);
}
