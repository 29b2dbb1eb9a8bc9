// Whether the owner that a user token names is blocked; a key's record says it itself. Cached while the change feed is
// current, like a key.

import { createLruCache } from '../ground/lru-cache.ts';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain, err, ok, type Result } from '../ground/result.ts';
import { singleFlights } from '../ground/single-flight.ts';
import type { Feed } from '../keys/feed.ts';
import type { KeyStore } from '../keys/store.ts';

export type CheckBlock = (owner: string) => Awaitable<Result<void, Problem>>;

const OWNERS_MAX = 10_000; // about 2 MB

export function createCheckBlock({ store, feed }: { store: Pick<KeyStore, 'isBlocked'>; feed: Feed }): CheckBlock {
  const known = createLruCache<boolean>({ entries: OWNERS_MAX });
  let changes = 0; // a read that began before a change must not be kept after it
  const reads = singleFlights<boolean>(); // nor be joined

  feed.subscribe({
    onChanges(_, owners) {
      for (const owner of owners) {
        changes += 1;
        known.delete(owner);
        reads.forget(owner);
      }
    },
    onReset() {
      changes += 1;
      known.clear();
      reads.forgetAll();
    },
  });

  async function read(owner: string): Promise<boolean> {
    const changesBefore = changes;
    const blocked = await store.isBlocked(owner, feed.queryTimeoutMs);
    if (changes === changesBefore) known.set(owner, blocked);
    return blocked;
  }

  const decide = (blocked: boolean): Result<void, Problem> => (blocked ? err({ code: 'user_blocked' }) : ok(undefined));

  const decideNow = (owner: string): Awaitable<Result<void, Problem>> =>
    chain(known.get(owner) ?? reads.run(owner, () => read(owner)), decide);

  return (owner) => (feed.current() ? decideNow(owner) : feed.ensureFresh().then(() => decideNow(owner)));
}
