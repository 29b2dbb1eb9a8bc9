// Keeps this process current: polls the store's change feed and tells the caches what to drop.
// Memory decides only while the last complete poll *began* less than `lagMaxMs` ago: that poll has seen whatever
// another process acknowledged before it. After that, `ensureFresh` polls at once or fails. Ages come from a clock that
// counts the time a machine sleeps. Timers do not count it, and no guarantee rests on them: they only poll in advance.
// Each poll also proves that the last change seen is still there. If it isn't, the database was put back to an earlier
// state, and everything is forgotten.

import { repeat } from '../ground/background.ts';
import { changesOf, FEED_PAGE_MAX, type FeedPage, isLost, type ReachedPosition } from '../ground/change-feed.ts';
import { outageIn, StoreOutage } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { createOutageLog } from '../watch/outage.ts';
import type { KeyStore } from './store.ts';

/** Polls per bound. Four, so that one lost and one slow poll still leave a fresh one. */
const POLLS_PER_LAG = 4;
/** After a failed poll the next one comes sooner: it may succeed before anybody has to wait. */
const RETRIES_PER_LAG = 16;
/** A query may take this part of the bound, then callers get 503: enough for a second try over the network. */
const QUERY_PART_OF_LAG = 0.9;
/** With a long bound a query times out sooner: no caller should wait for all of it. */
const QUERY_MS_MAX = 3000;
/** Taken off the bound for the response's way to its caller: a success must not arrive after the bound. */
const RESPONSE_MS = 25;
/** Polling stops after this long without a verification, because hosted databases bill reads. */
const IDLE_AFTER_MS = 60_000;
/** When the process is further behind than this, forgetting everything is quicker than reading the changes. */
const BEHIND_MAX = 10 * FEED_PAGE_MAX;

export type Feed = ReturnType<typeof createFeed>;

export interface FeedListener {
  /** A page that was read at a position, before what it says is told. */
  onPage?(asked: ReachedPosition, page: FeedPage): void;
  /** The records with these hashes may be different now, and the blocks of these owners. */
  onChanges?(keyHashes: readonly string[], owners: ReadonlySet<string>, changes: FeedPage['changes']): void;
  /** Anything may be different now. */
  onReset?(): void;
  /** A poll has ended; if it was complete, all that it has seen was told. */
  onPolled?(isComplete: boolean): void;
}

export function createFeed({
  store,
  clock,
  log,
  lagMaxMs,
}: {
  readonly store: Pick<KeyStore, 'changesAfter'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly lagMaxMs: number;
}) {
  const listeners: FeedListener[] = [];
  const outage = createOutageLog(log, { on: 'change feed out of reach', off: 'change feed back' });
  const queryTimeoutMs = Math.min(lagMaxMs * QUERY_PART_OF_LAG, QUERY_MS_MAX);
  const pollEveryMs = lagMaxMs / POLLS_PER_LAG;
  const retryAfterMs = lagMaxMs / RETRIES_PER_LAG;
  let position: ReachedPosition = { databaseId: '', seq: 0, mark: null };
  let polledAtMs = Number.NEGATIVE_INFINITY; // start of the last complete poll
  let lastUseMs = Number.NEGATIVE_INFINITY; // the last verification
  let failedAtMs = Number.NEGATIVE_INFINITY; // end of the last poll that failed

  const isFreshAt = (nowMs: number, atMs: number) => nowMs - atMs <= lagMaxMs - RESPONSE_MS;

  /** A page at once, so that caches walk their keys once for all its owners. */
  function tell(changes: FeedPage['changes']): void {
    const { keyHashes, owners } = changesOf(changes.map(({ changed }) => changed));
    for (const listener of listeners) listener.onChanges?.(keyHashes, new Set(owners), changes);
  }

  async function pollOnce(): Promise<void> {
    const startedAtMs = clock.monotonicMs();
    for (;;) {
      const asked = position;
      const page = await store.changesAfter(asked, queryTimeoutMs);
      for (const listener of listeners) listener.onPage?.(asked, page);
      const { databaseId, prunedSeq, newestSeq, newestMark, changes } = page;
      if (isLost(asked, page) || prunedSeq > asked.seq || newestSeq - asked.seq > BEHIND_MAX) {
        position = { databaseId, seq: newestSeq, mark: newestMark };
        for (const listener of listeners) listener.onReset?.();
        break;
      }
      const last = changes.at(-1);
      if (last !== undefined) {
        tell(changes);
        position = { databaseId, seq: last.seq, mark: last.mark };
      }
      if (changes.length < FEED_PAGE_MAX) break;
    }
    polledAtMs = startedAtMs;
  }

  const ended = (isComplete: boolean) => {
    for (const listener of listeners) listener.onPolled?.(isComplete);
  };

  const isIdle = () => clock.monotonicMs() - lastUseMs > IDLE_AFTER_MS;

  /** The next verification after an idle time polls first. */
  const pauseMs = () => (isIdle() ? null : outage.isOn ? retryAfterMs : pollEveryMs);

  const polled = { everyMs: pauseMs, firstMs: null, clock, log, event: 'change feed broken', onOutage() {} };
  const polling = repeat(polled, async () => {
    try {
      await pollOnce();
      outage.ended();
      ended(true);
    } catch (error) {
      failedAtMs = clock.monotonicMs();
      ended(false);
      if (error instanceof StoreOutage) outage.began(error.reason);
      throw error;
    }
  });

  const poll = polling.run;

  async function ensureFresh(): Promise<void> {
    lastUseMs = clock.monotonicMs();
    // A poll that was already under way may have begun too long ago to prove anything; then poll once more.
    for (let tries = 0; tries < 2; tries += 1) {
      await poll();
      if (isFreshAt(clock.monotonicMs(), polledAtMs)) return;
    }
    throw new StoreOutage('the change feed answers slower than the revocation bound');
  }

  return {
    subscribe: (listener: FeedListener) => void listeners.push(listener),
    /** True while memory may be trusted. Counts as a verification, which keeps the feed polling. `nowMs`: monotonic. */
    current(nowMs = clock.monotonicMs()): boolean {
      lastUseMs = nowMs;
      return isFreshAt(nowMs, polledAtMs);
    },
    /** When the last complete poll began, monotonic: what memory says was right then. */
    get polledAtMs() {
      return polledAtMs;
    },
    /** Polls go on although nothing is verified: somebody waits for the next one. */
    keepPolling(): void {
      lastUseMs = clock.monotonicMs();
      polling.wake();
    },
    /** Whether a decision that rests on what was right at this time may still be acted on. */
    isFresh: (atMs: number) => isFreshAt(clock.monotonicMs(), atMs),
    /** Resolves when memory may be trusted again; rejects with a StoreOutage if it can't be. */
    ensureFresh,
    /** After a change by this process: resolves when a poll has seen it; if that fails, memory is no longer trusted. */
    async refresh(): Promise<void> {
      await polling.underWay?.catch(() => {}); // it began before the change was made, and may have missed it
      try {
        await poll();
      } catch (error) {
        polledAtMs = Number.NEGATIVE_INFINITY;
        outageIn(error);
      }
    },
    /** Whether the store responds. It is not asked shortly after a response or a failure. Counts as no verification. */
    async probe(): Promise<boolean> {
      const nowMs = clock.monotonicMs();
      const isKnown = outage.isOn ? nowMs - failedAtMs < retryAfterMs : nowMs - polledAtMs <= pollEveryMs;
      if (!isKnown) await poll().catch(outageIn);
      return !outage.isOn;
    },
    get position() {
      return position;
    },
    /** What is known may be so old, and no older, when it is acted on. */
    boundMs: lagMaxMs - RESPONSE_MS,
    /** How long a query may take for its response to count. */
    queryTimeoutMs,
    /** True while no key is verified, and nothing is polled. */
    get idle() {
      return isIdle();
    },
    /** Age of what is known, in milliseconds; null before the first poll and after a `refresh` that failed. */
    lagMs: () => (polledAtMs === Number.NEGATIVE_INFINITY ? null : Math.round(clock.monotonicMs() - polledAtMs)),
    stop: polling.stop,
  };
}
