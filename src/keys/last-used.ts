// When each key was last used: exact in memory at once, in the store a few seconds later, never a write per call.

import type { Log } from '../log.ts';
import type { ApiKeyRecord, KeyStore } from './record.ts';

/** The contract says 5 s at most; flushing earlier leaves time for slices and a retry. */
const FLUSH_AFTER_MS = 3000;
/** Keys per statement: a few milliseconds of one core on the embedded database. */
const SLICE_KEYS = 250;
/** Keys remembered while the store is away: about 10 MB. Beyond it the longest waiting is given up, and counted. */
const PENDING_KEYS_MAX = 100_000;

export interface LastUsed {
  /** Notes a successful use of a key at `usedAtMs`. */
  note(keyId: string, usedAtMs: number): void;
  /** The newer of what the record says and what is not written yet. */
  of(record: ApiKeyRecord): number | null;
  /** Writes everything pending; resolves when done or when the store refused. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

export function createLastUsed({ store, log }: { store: KeyStore; log: Log }): LastUsed {
  const pending = new Map<string, number>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let flushing: Promise<void> | undefined;
  let forgotten = 0;

  const schedule = () => {
    timer ??= setTimeout(() => void flush(), FLUSH_AFTER_MS);
  };

  function note(keyId: string, usedAtMs: number): void {
    const known = pending.get(keyId);
    if (known === undefined) {
      if (pending.size >= PENDING_KEYS_MAX) forgetOldest();
      schedule();
    }
    if (known === undefined || known < usedAtMs) pending.set(keyId, usedAtMs);
  }

  function forgetOldest(): void {
    const oldest = pending.keys().next();
    if (!oldest.done) pending.delete(oldest.value);
    forgotten += 1;
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    flushing ??= writeAll().finally(() => {
      flushing = undefined;
      if (pending.size > 0) schedule();
    });
    return flushing;
  }

  async function writeAll(): Promise<void> {
    if (forgotten > 0) {
      log.warn('last uses forgotten', { count: forgotten });
      forgotten = 0;
    }
    const uses = [...pending];
    for (let start = 0; start < uses.length; start += SLICE_KEYS) {
      const slice = uses.slice(start, start + SLICE_KEYS);
      const written = await store.recordUse(slice);
      if (!written.ok) {
        log.warn('last uses kept for later', { count: pending.size, reason: written.error.reason });
        return;
      }
      for (const [keyId, usedAtMs] of slice) {
        if (pending.get(keyId) === usedAtMs) pending.delete(keyId); // used again meanwhile: stays
      }
      await new Promise((resolve) => setTimeout(resolve, 0)); // let waiting requests in
    }
  }

  return {
    note,
    of: (record) => {
      const unwritten = pending.get(record.id);
      return unwritten === undefined ? record.lastUsedAtMs : Math.max(unwritten, record.lastUsedAtMs ?? 0);
    },
    flush,
    async stop() {
      await flush(); // may join one that began before the last uses were noted
      if (pending.size > 0) await flush();
      clearTimeout(timer);
    },
  };
}
