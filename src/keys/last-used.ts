// When each key was last used: exact in memory at once, in the store a few seconds later, never a write per call.

import type { Log } from '../log.ts';
import { sleep, within } from '../waiting.ts';
import type { ApiKeyRecord, KeyStore } from './record.ts';

/** 5 s are promised; flushing earlier leaves time for slices and a retry. */
const FLUSH_AFTER_MS = 3000;
/** A flush is written in slices, spread over this time: whoever asks the store meanwhile waits for one slice at most. */
const SPREAD_MS = 1000;
/** The longest pause between two slices: where there are few, spreading them further helps nobody. */
const PAUSE_MS_MAX = 5;
/** Keys remembered while the store is away: about 15 MB. Uses of further keys are not noted, but counted. */
const PENDING_KEYS_MAX = 100_000;
/** Uses sorted at once, within about a millisecond. */
const RUN_LENGTH = 2500;

/** A stop waits this long for a store that hangs. */
const STOP_MS_MAX = 3000;

type Noted = Pick<ApiKeyRecord, 'id' | 'createdAtMs'>;

export interface LastUsed {
  /** Notes a successful use of the record's key at `usedAtMs`. */
  note(record: Noted, usedAtMs: number): void;
  /** The newer of what the record says and what is not written yet. */
  of(record: ApiKeyRecord): number | null;
  /** Writes everything pending; resolves when done or when the store refused. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

/** Both in milliseconds since the Unix epoch. */
interface Use {
  readonly createdAtMs: number;
  usedAtMs: number;
}

type NotedUse = [keyId: string, use: Use];
type Uses = Map<string, Use>;

export function createLastUsed({ store, log }: { store: KeyStore; log: Log }): LastUsed {
  let pending: Uses = new Map();
  /** Taken from `pending`, and not known to be written yet. */
  let leaving: Uses = new Map();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let flushing: Promise<void> | undefined;
  let notNoted = 0;
  let stopping = false;

  const schedule = () => {
    timer ??= setTimeout(() => {
      flush().catch((bug) => log.error('last uses not written', { error: bug }));
    }, FLUSH_AFTER_MS);
  };

  function note({ id, createdAtMs }: Noted, usedAtMs: number): void {
    const known = pending.get(id);
    if (known !== undefined) {
      if (usedAtMs > known.usedAtMs) known.usedAtMs = usedAtMs;
    } else if (pending.size + leaving.size < PENDING_KEYS_MAX) {
      pending.set(id, { createdAtMs, usedAtMs });
      schedule();
    } else notNoted += 1;
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
    if (notNoted > 0) {
      log.warn('last uses not noted', { count: notNoted });
      notNoted = 0;
    }
    leaving = pending;
    pending = new Map();
    const pauseMs = Math.min(PAUSE_MS_MAX, SPREAD_MS / Math.ceil(leaving.size / store.usesPerWrite));
    try {
      for await (const slice of slicesOf(leaving, store.usesPerWrite)) {
        const written = await store.recordUse(slice.map(([keyId, { usedAtMs }]) => [keyId, usedAtMs]));
        if (!written.ok) {
          log.warn('last uses kept for later', { count: leaving.size + pending.size, reason: written.error.reason });
          return;
        }
        for (const [keyId] of slice) leaving.delete(keyId);
        if (!stopping) await sleep(pauseMs);
      }
    } finally {
      keepWhatIsLeft();
    }
  }

  /** What wasn't written waits on, before what was noted meanwhile. */
  function keepWhatIsLeft(): void {
    if (leaving.size === 0) return;
    for (const [keyId, use] of pending) {
      leaving.set(keyId, { ...use, usedAtMs: Math.max(use.usedAtMs, leaving.get(keyId)?.usedAtMs ?? 0) });
    }
    pending = leaving;
    leaving = new Map();
  }

  return {
    note,
    of: ({ id, lastUsedAtMs }) => {
      const latest = Math.max(pending.get(id)?.usedAtMs ?? 0, leaving.get(id)?.usedAtMs ?? 0, lastUsedAtMs ?? 0);
      return latest === 0 ? lastUsedAtMs : latest;
    },
    flush,
    async stop() {
      stopping = true;
      // The first may join a flush that began before the last uses were noted.
      const written = flush().then(() => (pending.size > 0 ? flush() : undefined));
      await within(STOP_MS_MAX, written, undefined);
      clearTimeout(timer);
    },
  };
}

/**
 * Oldest keys first, in slices: those of one age are neighbours in the database's pages, of which a write then touches a
 * few, not one for each key. Sorted in runs that are merged as they are asked for: sorting all would take tens of ms.
 */
async function* slicesOf(uses: Uses, size: number): AsyncGenerator<NotedUse[]> {
  const runs: NotedUse[][] = [];
  const entries = uses.entries();
  for (let run = youngestFirst(entries); run.length > 0; run = youngestFirst(entries)) {
    runs.push(run);
    await sleep(0);
  }
  let slice: NotedUse[] = [];
  for (let use = takeOldest(runs); use !== undefined; use = takeOldest(runs)) {
    slice.push(use);
    if (slice.length < size) continue;
    yield slice;
    slice = [];
  }
  if (slice.length > 0) yield slice;
}

const youngestFirst = (entries: MapIterator<NotedUse>): NotedUse[] =>
  [...entries.take(RUN_LENGTH)].sort(([, a], [, b]) => b.createdAtMs - a.createdAtMs);

function takeOldest(runs: readonly NotedUse[][]): NotedUse | undefined {
  let oldest: NotedUse[] | undefined;
  for (const run of runs) if (createdAtMsOf(run) < createdAtMsOf(oldest)) oldest = run;
  return oldest?.pop();
}

/** When the next key of a run was created; never, when there is none. */
const createdAtMsOf = (run: readonly NotedUse[] | undefined) =>
  run?.at(-1)?.[1].createdAtMs ?? Number.POSITIVE_INFINITY;
