// A database that is opened (inspected and migrated) when it is first reached, and again after an empty one has
// replaced it. Until it is open, every statement is answered with the reason why not.

import { err, ok, type Result } from '../../lib/result.ts';
import { within } from '../../lib/timeout.ts';
import type { Log } from '../../log/log.ts';
import {
  type Answered,
  type Database,
  DatabaseOutage,
  gated,
  type Unavailable,
  UnusableDatabase,
  unavailable,
} from '../database.ts';

export interface OpeningDatabase extends Database {
  /** Opens the database unless it is open. Waits no longer than `withinMs`, if given. Throws UnusableDatabase. */
  open(withinMs?: number): Answered<void>;
}

export interface OpeningOptions {
  readonly db: Database;
  /** Throws DatabaseOutage or UnusableDatabase. */
  readonly prepare: (db: Database) => Promise<void>;
  /** Called after each opening. */
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

  /** An unusable database ends a start; later it is reported like any other failure. */
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

  return { ...gated(db, through), open };
}

const NOT_YET = err(unavailable('unreachable', 'the database takes long to open'));
