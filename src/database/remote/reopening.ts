// Migrates the remote database on first contact, and again if it is replaced by an empty one. Until then every statement
// fails with the reason.

import { err, ok, type Result } from '../../lib/result.ts';
import { singleFlight } from '../../lib/single-flight.ts';
import { withTimeout } from '../../lib/timeout.ts';
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
} from '../database.ts';

export interface LazyDatabase extends Database {
  /** Opens the database unless it is open. Waits no longer than `withinMs`, if given. Throws UnusableDatabase. */
  open(withinMs?: number): DbResult<void>;
}

export interface LazyDatabaseOptions {
  readonly db: Database;
  /** Throws DatabaseOutage or UnusableDatabase. */
  readonly prepare: (db: Database) => Promise<void>;
  /** Called after each opening. */
  readonly onOpen?: () => void;
  readonly log: Log;
}

export function lazyDatabase({ db, prepare, onOpen, log }: LazyDatabaseOptions): LazyDatabase {
  let isOpen = false;
  const outage = createOutageLog(log, { on: 'database not opened', off: 'database opened', eachReason: true });

  const opening = singleFlight(async (): DbResult<void> => {
    try {
      await prepare(db);
    } catch (error) {
      if (error instanceof DatabaseOutage) return err(error.failure);
      throw error;
    }
    outage.ended();
    isOpen = true;
    onOpen?.();
    return ok(undefined);
  });

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

  return { ...gated(db, through), open };
}

const NOT_YET = err(unavailable('unreachable', 'the database takes long to open'));
