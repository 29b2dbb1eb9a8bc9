// When what is old is removed: the change feed, events, counts, and codes.

import { repeat } from '../ground/background.ts';
import type { FeedPage } from '../ground/change-feed.ts';
import { MS_PER_DAY, MS_PER_HOUR } from '../ground/duration.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { CodeUpkeep } from './codes.ts';
import { pruneCounts } from './counts.ts';
import type { Database } from './database.ts';
import { CHANGES_KEPT_MAX, prune } from './feed.ts';

/** The first run is soon after start-up, off its critical path. */
const PRUNE_FIRST_AFTER_MS = 2000;

const PRUNE_EVERY_MS = MS_PER_HOUR;

/** So much earlier or later, as a part of the pause. */
const PRUNE_JITTER = 0.5;

/** When a poll shows that there are too many, they are removed at once; when that fails, no sooner than this. */
const PRUNE_AGAIN_AFTER_MS = 10_000;

/** "Too many", as a multiple of the limit. Each process draws its own, so that usually one of a cluster prunes. */
const OVERDUE_FROM = 1.02;

const OVERDUE_TO = 1.1;

export interface PruningOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly eventDays: number;
  readonly usageDays: number;
}

export interface Pruning {
  /** Starts a removal at once if the page shows too many changes. */
  saw(page: FeedPage): void;
  stop(): void;
}

export function pruneRegularly(db: Database, codes: CodeUpkeep, options: PruningOptions): Pruning {
  const { clock, log, eventDays, usageDays } = options;
  const overdueAt = CHANGES_KEPT_MAX * (OVERDUE_FROM + Math.random() * (OVERDUE_TO - OVERDUE_FROM));
  let stopped = false;
  let againAtMs = Number.NEGATIVE_INFINITY;

  const runs = repeat(
    {
      everyMs: PRUNE_EVERY_MS,
      firstMs: PRUNE_FIRST_AFTER_MS,
      jitter: PRUNE_JITTER,
      clock,
      log,
      event: 'old changes not removed',
    },
    async () => {
      againAtMs = clock.monotonicMs() + PRUNE_AGAIN_AFTER_MS;
      let hadChanges = false;
      try {
        await codes.forgetEnded(clock.nowMs());
        await pruneCounts(db, clock.nowMs(), usageDays);
        hadChanges = await prune(db, eventDays * MS_PER_DAY);
      } finally {
        againAtMs = hadChanges ? Number.NEGATIVE_INFINITY : clock.monotonicMs() + PRUNE_AGAIN_AFTER_MS;
      }
    },
  );

  return {
    saw({ newestSeq, prunedSeq }) {
      if (newestSeq - prunedSeq > overdueAt && !stopped && clock.monotonicMs() > againAtMs) runs.hasten();
    },
    stop() {
      stopped = true;
      runs.stop();
    },
  };
}
