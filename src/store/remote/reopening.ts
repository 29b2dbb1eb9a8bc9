// Migrates the remote database on first contact, and again if it is replaced by an empty one. Until then every statement
// fails with the reason.

import { err, ok, type Result } from '../../lib/result.ts';
import { withTimeout } from '../../lib/timeout.ts';
import type { Log } from '../../log/log.ts';
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
  let opening: DbResult<void> | undefined;
  let isOpen = false;
  let lastReason = '';

  function prepared(): DbResult<void> {
    opening ??= prepare(db).then(
      () => {
        if (lastReason !== '') log.info('database opened');
        lastReason = '';
        isOpen = true;
        onOpen?.();
        return ok(undefined);
      },
      (error): Result<void, Unavailable> => {
        opening = undefined;
        if (error instanceof DatabaseOutage) return err(error.failure);
        throw error;
      },
    );
    return opening;
  }

  async function open(withinMs?: number): DbResult<void> {
    const opened = await (withinMs === undefined ? prepared() : withTimeout(prepared(), withinMs, NOT_YET));
    return opened.ok ? opened : refuse(opened.error);
  }

  function refuse(failure: Unavailable): Result<never, Unavailable> {
    if (failure.reason !== lastReason) log.warn('database not opened', { reason: failure.reason });
    lastReason = failure.reason;
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
    const answered = await run();
    if (!answered.ok && answered.error.outage === 'no_schema') {
      isOpen = false; // replaced under our feet
      opening = undefined;
    }
    return answered;
  }

  return { ...gated(db, through), open };
}

const NOT_YET = err(unavailable('unreachable', 'the database takes long to open'));
