// A Database over a libSQL file, which other processes may have open too.

import { err, ok } from '../../lib/result.ts';
import { type Database, type DbResult, errorReason, isSchemaMissing, unavailable } from '../database.ts';
import { codeOf, isDamaged } from '../native.ts';
import { createConnection } from './connection.ts';
import { createGroupCommit } from './group-commit.ts';
import { createTurns, RETRY_MS_MAX, retryBusy } from './waiting.ts';

/** Errors of the environment or of a damaged file, not of the statement. Every other error is a bug. */
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|NOMEM|PROTOCOL|PERM)/;

/** For the log: the check at the start does not read every page of a large file. */
const DAMAGED_TEXT = 'the database file is damaged; restore it from a backup';

async function guarded<T>(result: Promise<T>): DbResult<T> {
  try {
    return ok(await result);
  } catch (error) {
    if (isSchemaMissing(error)) return err(unavailable('no_schema', errorReason(error)));
    if (!UNAVAILABLE.test(codeOf(error))) throw error;
    const reason = errorReason(error);
    return err(unavailable('unreachable', isDamaged(error) ? `${DAMAGED_TEXT} (${reason})` : reason));
  }
}

export function embeddedDatabase(path: string): Database {
  const synced = createConnection(path, 'FULL');
  const unsynced = createConnection(path, 'NORMAL');
  const turns = createTurns();
  const commitSynced = createGroupCommit(synced, turns);
  const commitUnsynced = createGroupCommit(unsynced, turns);
  const retried = <T>(work: () => T, forMs = RETRY_MS_MAX) => guarded(retryBusy(() => turns(work), forMs));
  return {
    read: (statement, withinMs) => retried(() => synced.use(({ all }) => all(statement)), withinMs),
    write: (statement) => guarded(statement.unsynced ? commitUnsynced(statement) : commitSynced(statement)),
    writeAll: (statements) => retried(() => synced.transact(({ run }) => statements.forEach(run))),
    close() {
      synced.close();
      unsynced.close();
    },
  };
}
