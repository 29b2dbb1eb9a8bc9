// Whether the database takes writes: false from a write that failed for want of space or rights until one succeeds.
// Known keys go on verifying meanwhile, so nothing else would show it.

import type { Database, DbResult, Unavailable } from '../database/database.ts';
import { WRITE_PROBE } from '../database/schema.ts';
import type { Result } from '../lib/result.ts';
import type { Cancel, Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import { createOutageLog } from '../log/outage.ts';

/** SQLite's, here or on a server: no space, no rights, a failing disk. BLOCKED: the server's operator forbids it. */
const NOT_WRITABLE = /BLOCKED|SQLITE_(FULL|READONLY|PERM|IOERR|CANTOPEN)/;

/** A process that writes nothing else would not learn that there is space again. */
const PROBE_AGAIN_AFTER_MS = 5000;

export interface WriteWatch {
  /** `db` with its writes watched. */
  watch(db: Database): Database;
  writable(): boolean;
  stop(): void;
}

export function createWriteWatch({ clock, log }: { readonly clock: Clock; readonly log: Log }): WriteWatch {
  const outage = createOutageLog(log, { on: 'database not writable', off: 'database writable again' });
  let writable = true;
  let stopped = false;
  let cancelProbe: Cancel | undefined;
  let probe = async (): Promise<unknown> => undefined;

  function probeLater(): void {
    cancelProbe?.();
    cancelProbe = clock.after(PROBE_AGAIN_AFTER_MS, () => void probe());
  }

  function saw(result: Result<unknown, Unavailable>): void {
    if (stopped) return; // closing: what fails now says nothing of the disk
    if (result.ok) {
      writable = true;
      outage.ended();
    } else if (result.error.outage === 'refused' || NOT_WRITABLE.test(result.error.reason)) {
      writable = false;
      outage.began(result.error.reason);
    }
    if (!writable) probeLater();
  }

  async function seen<T>(write: DbResult<T>): DbResult<T> {
    const result = await write;
    if (!result.ok || !writable) saw(result);
    return result;
  }

  return {
    watch(db) {
      const watched: Database = {
        ...db,
        write: (statement, withinMs) => seen(db.write(statement, withinMs)),
        writeAll: (statements) => seen(db.writeAll(statements)),
      };
      probe = () => watched.write(WRITE_PROBE);
      return watched;
    },
    writable: () => writable,
    stop() {
      stopped = true;
      cancelProbe?.();
    },
  };
}
