// Remembers which owners are blocked, for user tokens: a key's record says so itself. Memory decides while the change feed is
// current.

import { createLruCache, singleFlights } from '../ground/cache.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain, err, ok, type Result } from '../ground/result.ts';
import type { Feed } from './feed.ts';
import type { KeyStore } from './store.ts';

/** Checks that an owner isn't blocked. Returns when the proof of that began, in monotonic milliseconds. */
export type CheckBlock = (owner: string) => Awaitable<Result<number, Problem>>;

const OWNERS_MAX = 10_000; // about 2 MB

export function createCheckBlock(store: KeyStore, feed: Feed): CheckBlock {
  const known = createLruCache<boolean>({ entries: OWNERS_MAX });
  const reads = singleFlights<boolean>((owner, isBlocked) => known.set(owner, isBlocked));

  feed.subscribe({
    onChanges(_, owners) {
      for (const owner of owners) {
        known.delete(owner);
        reads.forget(owner);
      }
    },
    onReset() {
      known.clear();
      reads.forgetAll();
    },
  });

  const read = (owner: string) => reads.run(owner, () => store.isBlocked(owner, feed.queryTimeoutMs));

  function decideNow(owner: string): Awaitable<Result<number, Problem>> {
    const { polledAtMs } = feed; // read now: a poll that begins during the read proves nothing of it
    const decide = (blocked: boolean) => (blocked ? err({ code: 'user_blocked' } as const) : ok(polledAtMs));
    return chain(known.get(owner) ?? read(owner), decide);
  }

  return (owner) => (feed.isCurrentForUse() ? decideNow(owner) : feed.ensureFresh().then(() => decideNow(owner)));
}
