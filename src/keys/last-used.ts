// When each key was last used: exact in memory at once, stored a few seconds later, never with a write per call.

import { repeat } from '../lib/background.ts';
import type { Clock } from '../lib/runtime.ts';
import { slicesOf } from '../lib/slices.ts';
import { sleep, withTimeout } from '../lib/timeout.ts';
import type { Log } from '../log/log.ts';
import type { ApiKeyRecord, ListedKey } from './record.ts';
import type { KeyStore } from './store.ts';

/** 5 s are promised; flushing earlier leaves time for slices and a retry. */
const FLUSH_AFTER_MS = 3000;
/**
 * A flush is written in slices, spread over this time: a query meanwhile waits for one slice at most.
 */
const SPREAD_MS = 1000;
/** The longest pause between two slices: a few slices need not be spread over all of that time. */
const PAUSE_MS_MAX = 5;
/** Keys remembered while the store is away: about 15 MB. Uses of further keys are not noted, but counted. */
const PENDING_KEYS_MAX = 100_000;

/** A stop waits this long for a store that hangs. */
const STOP_MS_MAX = 3000;

/** A record, and when its key was used last: side by side, so that a use is noted without looking for the key again. */
export interface TrackedKey {
  readonly record: ApiKeyRecord;
  /** Milliseconds since the Unix epoch; 0: not used in this process yet. */
  usedAtMs: number;
  /** Number of the flush that is to write it. */
  flush: number;
}

export const track = (record: ApiKeyRecord): TrackedKey => ({ record, usedAtMs: 0, flush: 0 });

export interface LastUsed {
  /** Notes a successful use of the key at `usedAtMs`. */
  note(key: TrackedKey, usedAtMs: number): void;
  /** The later of the record's own last use and any use that was not written yet when the record was read. */
  of(record: ListedKey): number | null;
  /** Writes everything pending; resolves when done or when the store refused. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

/** By id. */
type Uses = Map<string, TrackedKey>;

export function createLastUsed({ store, clock, log }: { store: KeyStore; clock: Clock; log: Log }): LastUsed {
  let pending: Uses = new Map();
  /** Taken from `pending`, and not known to be written yet. */
  let flushing: Uses = new Map();
  /** Written by the last flush: a list that was read before that, and is returned after it, lacks them. */
  let written: Uses = new Map();
  let nextGeneration = 1;
  let dropped = 0;
  let stopping = false;

  const flushes = repeat(
    {
      everyMs: () => (pending.size > 0 ? FLUSH_AFTER_MS : null),
      clock,
      log,
      event: 'last uses not written',
    },
    writeAll,
  );

  function note(key: TrackedKey, usedAtMs: number): void {
    if (usedAtMs > key.usedAtMs) key.usedAtMs = usedAtMs;
    if (key.flush !== nextGeneration) noteFirst(key);
  }

  /** The first use since the last flush. */
  function noteFirst(key: TrackedKey): void {
    if (pending.size + flushing.size >= PENDING_KEYS_MAX && !pending.has(key.record.id)) dropped += 1;
    else keep(key);
  }

  function keep(key: TrackedKey): void {
    const { id } = key.record;
    const known = pending.get(id); // another object, if the record was read again meanwhile
    if (known !== undefined) {
      known.usedAtMs = Math.max(known.usedAtMs, key.usedAtMs);
      return;
    }
    pending.set(id, key);
    key.flush = nextGeneration;
    flushes.wake();
  }

  async function writeAll(): Promise<void> {
    if (dropped > 0) {
      log.warn('last uses not noted', { count: dropped });
      dropped = 0;
    }
    flushing = pending;
    pending = new Map();
    written = new Map();
    nextGeneration += 1;
    const pauseMs = Math.min(PAUSE_MS_MAX, SPREAD_MS / Math.ceil(flushing.size / store.usesPerWrite));
    try {
      for (const slice of slicesOf(flushing.values(), store.usesPerWrite, ({ record }) => record.createdAtMs)) {
        const recorded = await store.recordUse(slice.map(({ record, usedAtMs }) => [record.id, usedAtMs]));
        if (!recorded.ok) {
          log.warn('last uses kept for later', { count: flushing.size + pending.size, reason: recorded.error.reason });
          return;
        }
        for (const key of slice) {
          flushing.delete(key.record.id);
          written.set(key.record.id, key);
        }
        if (!stopping) await sleep(pauseMs);
      }
    } finally {
      for (const key of flushing.values()) keep(key);
      flushing = new Map();
    }
  }

  return {
    note,
    of: ({ id, lastUsedAtMs }) => {
      const usedIn = (uses: Uses) => uses.get(id)?.usedAtMs ?? 0;
      const latest = Math.max(usedIn(pending), usedIn(flushing), usedIn(written), lastUsedAtMs ?? 0);
      return latest === 0 ? lastUsedAtMs : latest;
    },
    flush: flushes.run,
    async stop() {
      stopping = true;
      // The first call may join a flush that began before the last uses were noted.
      const lastFlush = flushes.run().then(() => (pending.size > 0 ? flushes.run() : undefined));
      await withTimeout(lastFlush, STOP_MS_MAX, undefined);
      flushes.stop();
    },
  };
}
