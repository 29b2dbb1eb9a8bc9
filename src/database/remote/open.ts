// Opens a remote database: at start-up if it responds, else when it first does, and again when it is replaced by an
// empty one. Until then every statement fails with the reason.

import { err, ok, type Result } from '../../lib/result.ts';
import type { Clock } from '../../lib/runtime.ts';
import { singleFlight } from '../../lib/single-flight.ts';
import { withTimeout } from '../../lib/timeout.ts';
import { shownUrl } from '../../lib/urls.ts';
import type { Log } from '../../log/log.ts';
import { createOutageLog } from '../../log/outage.ts';
import {
  type Database,
  DatabaseOutage,
  type DbResult,
  gated,
  type Unavailable,
  UnusableDatabase,
  unavailable,
  unwrap,
} from '../database.ts';
import type { RemoteConfig } from '../place.ts';
import { migrate, WRITE_PROBE } from '../schema.ts';
import { remoteDatabase } from './database.ts';

/** The start waits this long for a primary that hangs, then goes on without it. */
const START_WAIT_MS = 2000;

/** 2 ms of the primary's time. Many at once, because it may be far away, and waiting for it holds up nothing. */
const USES_PER_WRITE = 1000;

export interface RemoteOptions {
  readonly clock: Clock;
  readonly log: Log;
}

export async function remoteStore(config: RemoteConfig, options: RemoteOptions) {
  const primary = await remoteDatabase(config);
  const replica = config.replicaFile === null ? null : await replicaOf(primary, config.replicaFile, options);
  const { db, open } = openedLater(primary, () => replica?.open(), options.log);
  return {
    db,
    usesPerWrite: USES_PER_WRITE,
    replica,
    async open() {
      const opened = await open(START_WAIT_MS);
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

/** Not open yet: opening hangs while the primary does, so it has to wait until the primary has responded. */
async function replicaOf(primary: Database, file: string, options: RemoteOptions) {
  const { createReplica } = await import('../replica/replica.ts');
  return createReplica({ file, readPrimary: async (statement) => unwrap(await primary.read(statement)), ...options });
}

/** `primary`, which its statements open unless it is open. `onOpen` is called after each opening. */
function openedLater(primary: Database, onOpen: () => void, log: Log) {
  let isOpen = false;
  const outage = createOutageLog(log, { on: 'database not opened', off: 'database opened', eachReason: true });

  const opening = singleFlight(async (): DbResult<void> => {
    try {
      await prepare(primary);
    } catch (error) {
      if (error instanceof DatabaseOutage) return err(error.failure);
      throw error;
    }
    outage.ended();
    isOpen = true;
    onOpen();
    return ok(undefined);
  });

  /** Waits no longer than `withinMs`, if given. Throws UnusableDatabase. */
  async function open(withinMs?: number): DbResult<void> {
    if (isOpen) return ok(undefined);
    const opened = await (withinMs === undefined ? opening.run() : withTimeout(opening.run(), withinMs, NOT_YET));
    return opened.ok ? opened : refuse(opened.error);
  }

  function refuse(failure: Unavailable): Result<never, Unavailable> {
    outage.began(failure.reason);
    return err(failure);
  }

  /** An unusable database ends a start; later it is reported like any other failure. */
  const unusable = (error: unknown): Result<never, Unavailable> => {
    if (error instanceof UnusableDatabase) return refuse(unavailable('refused', error.message));
    throw error;
  };

  async function through<T>(run: () => DbResult<T>, withinMs?: number): DbResult<T> {
    if (!isOpen) {
      const opened = await open(withinMs).catch(unusable);
      if (!opened.ok) return opened;
    }
    const result = await run();
    if (!result.ok && result.error.outage === 'no_schema') isOpen = false; // replaced under our feet
    return result;
  }

  return { db: gated(primary, through), open };
}

const NOT_YET = err(unavailable('unreachable', 'the database takes long to open'));

/** Throws DatabaseOutage or UnusableDatabase. */
async function prepare(db: Database): Promise<void> {
  await migrate(db);
  const probed = await db.write(WRITE_PROBE);
  // Any other failure, such as a block by the operator, lets reading go on.
  if (!probed.ok && probed.error.outage === 'refused') unwrap(probed);
}
