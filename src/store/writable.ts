// Tracks whether the database accepts writes: not from a write that failed for lack of space or rights until a probe
// succeeds. Meanwhile each write waits for a probe, shared by concurrent ones, so that a full disk has one write to
// refuse. Known keys still verify, so nothing else would show it.

import { singleFlight } from '../ground/cache.ts';
import { outageIn, StoreOutage } from '../ground/result.ts';
import type { Cancel, Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { createOutageLog } from '../watch/outage.ts';
import type { Database } from './database.ts';
import { WRITE_PROBE } from './schema.ts';

/** SQLite's codes, here or on a server: no space, no rights, a failing disk. BLOCKED: by the server's operator. */
const NOT_WRITABLE = /BLOCKED|SQLITE_(FULL|READONLY|PERM|IOERR|CANTOPEN)/;

/** How soon it probes again, because a process that writes nothing would not notice new space. */
const PROBE_AGAIN_AFTER_MS = 5000;

/** Returns `db` with monitored writes. */
export function watchWrites(db: Database, { clock, log }: { readonly clock: Clock; readonly log: Log }) {
  const outageLog = createOutageLog(log, { on: 'database not writable', off: 'database writable again' });
  let refusal: StoreOutage | null = null;
  let stopped = false;
  let cancelProbe: Cancel | undefined;

  function failed(error: unknown): never {
    const isOutage = error instanceof StoreOutage;
    // While closing, failures say nothing about the disk.
    if (!stopped && isOutage && (error.kind === 'refused' || NOT_WRITABLE.test(error.reason))) {
      refusal = error;
      outageLog.began(error.reason);
    }
    if (refusal !== null && !stopped) {
      cancelProbe?.();
      cancelProbe = clock.after(PROBE_AGAIN_AFTER_MS, () => void probing.run().catch(outageIn));
    }
    throw error;
  }

  const probing = singleFlight(async () => {
    await db.write(WRITE_PROBE).catch(failed);
    refusal = null;
    outageLog.ended();
    cancelProbe?.();
  });

  async function watched<T>(write: () => Promise<T>): Promise<T> {
    if (refusal !== null) await probing.run();
    return write().catch(failed);
  }

  const watchedDb: Database = {
    ...db,
    write: (statement, withinMs) => watched(() => db.write(statement, withinMs)),
    writeAll: (statements) => watched(() => db.writeAll(statements)),
  };
  return {
    db: watchedDb,
    writable: () => refusal === null,
    stop() {
      stopped = true;
      cancelProbe?.();
    },
  };
}
