// How many keys expire soon, for the metrics. Asked for at most once a minute, and never waited for: a scrape must succeed
// while the database is away.

import type { AdminStore } from '../keys/admin.ts';
import { MS_PER_DAY } from '../lib/duration.ts';
import type { Clock } from '../lib/runtime.ts';
import { withTimeout } from '../lib/timeout.ts';

const ASK_EVERY_MS = 60_000;
/** What a scrape waits for a count; it has 10 s in all, unless told. */
const WAIT_MS_MAX = 500;

interface Count {
  last: number | undefined;
  askedAtMs: number;
  asking: Promise<number | undefined>;
}

/** Counts the keys that expire within so many days; undefined while that is not known. */
export function createExpiring({ countExpiring }: AdminStore, clock: Clock) {
  const counts = new Map<number, Count>();

  async function ask(days: number, before: number | undefined): Promise<number | undefined> {
    const nowMs = clock.nowMs();
    const counted = await countExpiring(nowMs, nowMs + days * MS_PER_DAY);
    return counted.ok ? counted.value : before;
  }

  return (days: number): Promise<number | undefined> => {
    const nowMs = clock.monotonicMs();
    const known = counts.get(days);
    if (known !== undefined && nowMs - known.askedAtMs < ASK_EVERY_MS)
      return withTimeout(known.asking, WAIT_MS_MAX, known.last);
    const last = known?.last;
    const count: Count = { last, askedAtMs: nowMs, asking: ask(days, last) };
    count.asking = count.asking.then((value) => (count.last = value));
    counts.set(days, count);
    return withTimeout(count.asking, WAIT_MS_MAX, last);
  };
}
