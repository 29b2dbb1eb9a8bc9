// A database that is opened (looked at, and brought up to date) when it is first reached, and again after it was
// replaced by an empty one. Until then every statement is answered with the reason why not.

import type { Log } from '../log.ts';
import { err, ok, type Result } from '../problem.ts';
import { within } from '../waiting.ts';
import {
  type Answered,
  type Database,
  DatabaseOutage,
  type Unavailable,
  UnusableDatabase,
  unavailable,
} from './database.ts';

export interface OpeningDatabase extends Database {
  /** Opens now unless it is open. Waits no longer than `withinMs`, if that is given. Throws UnusableDatabase. */
  open(withinMs?: number): Answered<void>;
}

export interface OpeningOptions {
  readonly db: Database;
  /** Throws DatabaseOutage or UnusableDatabase. */
  readonly prepare: (db: Database) => Promise<void>;
  /** Called each time it was opened. */
  readonly onOpen?: () => void;
  readonly log: Log;
}

export function openingDatabase({ db, prepare, onOpen, log }: OpeningOptions): OpeningDatabase {
  let opening: Answered<void> | undefined;
  let isOpen = false;
  let complained = '';

  function prepared(): Answered<void> {
    opening ??= prepare(db).then(
      () => {
        if (complained !== '') log.info('database opened');
        complained = '';
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

  async function open(withinMs?: number): Answered<void> {
    const opened = await (withinMs === undefined ? prepared() : within(withinMs, prepared(), NOT_YET));
    return opened.ok ? opened : refuse(opened.error);
  }

  function refuse(failure: Unavailable): Result<never, Unavailable> {
    if (failure.reason !== complained) log.warn('database not opened', { reason: failure.reason });
    complained = failure.reason;
    return err(failure);
  }

  /** A start ends at an unusable database; who uses it later is told like of any other failure. */
  const unusable = (error: unknown): Result<never, Unavailable> => {
    if (error instanceof UnusableDatabase) return refuse(unavailable('refused', error.message));
    throw error;
  };

  async function through<T>(run: () => Answered<T>, withinMs?: number): Answered<T> {
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

  return {
    open,
    read: (statement, withinMs) => through(() => db.read(statement, withinMs), withinMs),
    write: (statement) => through(() => db.write(statement)),
    writeUnsynced: (statement) => through(() => db.writeUnsynced(statement)),
    writeAll: (statements) => through(() => db.writeAll(statements)),
    close: db.close,
  };
}

const NOT_YET = err(unavailable('unreachable', 'the database takes long to open'));
