// Knowing how current this process is: polls the store's change feed and tells the caches what to drop.
//
// Everything decided from memory counts only while the last complete poll *began* at most `lagMaxMs` ago: whatever
// another process acknowledged before that moment has been seen here. Past it, `ensureCurrent` polls at once or fails.

import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { err, ok, type Result, type StoreUnavailable } from '../problem.ts';
import { FEED_PAGE_MAX, type FeedPosition, type KeyStore } from './record.ts';

/** Polls within the bound: one may be lost, and one slow, before verification has to wait for a poll of its own. */
const POLLS_PER_LAG = 4;
/** Without a verification for this long polling stops: hosted databases bill reads. */
const IDLE_AFTER_MS = 60_000;

export interface Feed {
  /** True while memory may be believed. Also tells the feed that somebody is verifying. */
  current(): boolean;
  /** Resolves when memory may be believed again, or with the reason why it can't be. */
  ensureCurrent(): Promise<Result<void, StoreUnavailable>>;
  /** After a mutation of this process: resolves when its change has been seen here, or else memory is believed no more. */
  refresh(): Promise<void>;
  /** Asks the store now: does it answer? Does not count as verifying. */
  probe(): Promise<boolean>;
  readonly position: FeedPosition;
  /** Age of what is known, milliseconds; null before the first poll. */
  lagMs(): number | null;
  stop(): void;
}

export interface FeedOptions {
  readonly store: KeyStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly lagMaxMs: number;
  /** The record of this hash may be different now. */
  readonly onChange: (keyHash: string) => void;
  /** Anything may be different now. */
  readonly onReset: () => void;
}

export function createFeed({ store, clock, log, lagMaxMs, onChange, onReset }: FeedOptions): Feed {
  let position: FeedPosition = { databaseId: '', seq: 0 };
  let provenAtMs = Number.NEGATIVE_INFINITY; // start of the last complete poll
  let askedAtMs = Number.NEGATIVE_INFINITY; // the last verification
  let running: { startedAtMs: number; done: Promise<Result<void, StoreUnavailable>> } | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  let failing = false;

  const fresh = () => clock.monotonicMs() - provenAtMs <= lagMaxMs;

  async function pollOnce(): Promise<Result<void, StoreUnavailable>> {
    const startedAtMs = clock.monotonicMs();
    for (;;) {
      const asked = position;
      const page = await store.changesAfter(asked.seq);
      if (!page.ok) return page;
      const { databaseId, prunedSeq, newestSeq, changes } = page.value;
      if (databaseId !== asked.databaseId || newestSeq < asked.seq || prunedSeq > asked.seq) {
        // Another database, or we slept past the pruned part: nothing known counts.
        position = { databaseId, seq: newestSeq };
        onReset();
        break;
      }
      for (const change of changes) onChange(change.keyHash);
      position = { databaseId, seq: changes.at(-1)?.seq ?? asked.seq };
      if (changes.length < FEED_PAGE_MAX) break;
    }
    provenAtMs = startedAtMs;
    return ok(undefined);
  }

  function poll(): Promise<Result<void, StoreUnavailable>> {
    if (running === undefined) {
      clearTimeout(timer);
      const done = pollOnce().then((result) => {
        running = undefined;
        report(result);
        scheduleNext();
        return result;
      });
      running = { startedAtMs: clock.monotonicMs(), done };
    }
    return running.done;
  }

  function report(result: Result<void, StoreUnavailable>): void {
    if (!result.ok && !failing) log.warn('change feed out of reach', { reason: result.error.reason });
    if (result.ok && failing) log.info('change feed back');
    failing = !result.ok;
  }

  function scheduleNext(): void {
    clearTimeout(timer);
    if (stopped || clock.monotonicMs() - askedAtMs > IDLE_AFTER_MS) return; // the next verification polls first
    timer = setTimeout(() => void poll(), lagMaxMs / POLLS_PER_LAG);
  }

  async function ensureCurrent(): Promise<Result<void, StoreUnavailable>> {
    askedAtMs = clock.monotonicMs();
    // A poll that was already under way may have begun too long ago to prove anything: then one more.
    for (let tries = 0; tries < 2; tries += 1) {
      const polled = await poll();
      if (!polled.ok) return polled;
      if (fresh()) return polled;
    }
    return err({ code: 'store_unavailable', reason: 'the change feed answers slower than the revocation bound' });
  }

  return {
    current() {
      askedAtMs = clock.monotonicMs();
      return askedAtMs - provenAtMs <= lagMaxMs;
    },
    ensureCurrent,
    async refresh() {
      await running?.done; // began before the change was made, so it may have missed it
      const polled = await poll();
      if (!polled.ok) provenAtMs = Number.NEGATIVE_INFINITY;
    },
    probe: async () => (await poll()).ok,
    get position() {
      return position;
    },
    lagMs: () => (provenAtMs === Number.NEGATIVE_INFINITY ? null : Math.round(clock.monotonicMs() - provenAtMs)),
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
