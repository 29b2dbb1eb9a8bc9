// Knowing how current this process is: polls the store's change feed and tells the caches what to drop.
//
// Everything decided from memory counts only while the last complete poll *began* less than `lagMaxMs` ago: whatever
// another process acknowledged before that moment has been seen here. Past it, `ensureCurrent` polls at once or fails.

import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { err, ok, type Result, type StoreUnavailable } from '../problem.ts';
import { FEED_PAGE_MAX, type FeedPosition, type KeyStore } from './record.ts';

/** Polls within the bound: one may be lost, and one slow, before verification has to wait for a poll of its own. */
const POLLS_PER_LAG = 4;
/** After one that failed the next comes sooner: there may still be time before anybody has to wait. */
const RETRIES_PER_LAG = 16;
/**
 * After this part of the bound a question to the store is given up, and the caller gets 503. It is most of the bound, so
 * that there is time to ask a store over the network a second time.
 */
const ASK_PART_OF_LAG = 0.9;
/** With a long bound a question is given up sooner: nobody should have to wait for all of it. */
const ASK_MS_MAX = 3000;
/** Taken off the bound, for the answer's way to its caller: a success must not arrive after the bound either. */
const ANSWER_MS = 25;
/** Without a verification for this long polling stops: hosted databases bill reads. */
const IDLE_AFTER_MS = 60_000;
/** Further behind than this, forgetting everything is quicker than reading what happened. */
const BEHIND_MAX = 10 * FEED_PAGE_MAX;

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
  /** How long a question to the store may take for its answer to count. */
  readonly askWithinMs: number;
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

type Polled = Promise<Result<void, StoreUnavailable>>;

export function createFeed({ store, clock, log, lagMaxMs, onChange, onReset }: FeedOptions): Feed {
  const askWithinMs = Math.min(lagMaxMs * ASK_PART_OF_LAG, ASK_MS_MAX);
  let position: FeedPosition = { databaseId: '', seq: 0 };
  let provenAtMs = Number.NEGATIVE_INFINITY; // start of the last complete poll
  let askedAtMs = Number.NEGATIVE_INFINITY; // the last verification
  let running: Polled | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  let failing = false;

  const isCurrentAt = (nowMs: number) => nowMs - provenAtMs <= lagMaxMs - ANSWER_MS;

  async function pollOnce(): Polled {
    const startedAtMs = clock.monotonicMs();
    for (;;) {
      const asked = position;
      const page = await store.changesAfter(asked.seq, askWithinMs);
      if (!page.ok) return page;
      const { databaseId, prunedSeq, newestSeq, changes } = page.value;
      const replaced = databaseId !== asked.databaseId || newestSeq < asked.seq;
      if (replaced || prunedSeq > asked.seq || newestSeq - asked.seq > BEHIND_MAX) {
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

  function poll(): Polled {
    clearTimeout(timer);
    running ??= pollOnce()
      .then((result) => {
        report(result);
        return result;
      })
      .finally(() => {
        running = undefined;
        scheduleNext();
      });
    return running;
  }

  function report(result: Result<void, StoreUnavailable>): void {
    if (!result.ok && !failing) log.warn('change feed out of reach', { reason: result.error.reason });
    if (result.ok && failing) log.info('change feed back');
    failing = !result.ok;
  }

  function scheduleNext(): void {
    clearTimeout(timer);
    if (stopped || clock.monotonicMs() - askedAtMs > IDLE_AFTER_MS) return; // the next verification polls first
    timer = setTimeout(
      () => {
        poll().catch((bug) => log.error('change feed broken', { error: bug })); // the next verification meets it too
      },
      lagMaxMs / (failing ? RETRIES_PER_LAG : POLLS_PER_LAG),
    );
  }

  async function ensureCurrent(): Polled {
    askedAtMs = clock.monotonicMs();
    // A poll that was already under way may have begun too long ago to prove anything: then one more.
    for (let tries = 0; tries < 2; tries += 1) {
      const polled = await poll();
      if (!polled.ok) return polled;
      if (isCurrentAt(clock.monotonicMs())) return polled;
    }
    return err({ code: 'store_unavailable', reason: 'the change feed answers slower than the revocation bound' });
  }

  return {
    current() {
      askedAtMs = clock.monotonicMs();
      return isCurrentAt(askedAtMs);
    },
    ensureCurrent,
    async refresh() {
      await running?.catch(() => {}); // began before the change was made, so it may have missed it
      let seen = false;
      try {
        seen = (await poll()).ok;
      } finally {
        if (!seen) provenAtMs = Number.NEGATIVE_INFINITY;
      }
    },
    probe: async () => (await poll()).ok,
    get position() {
      return position;
    },
    askWithinMs,
    lagMs: () => (provenAtMs === Number.NEGATIVE_INFINITY ? null : Math.round(clock.monotonicMs() - provenAtMs)),
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
