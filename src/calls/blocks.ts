// Whether the owner that a user token names is blocked; a key's record says it itself. Cached while the change feed is
// current, like a key.

import type { Feed } from '../keys/feed.ts';
import type { KeyStore } from '../keys/store.ts';
import { createLruCache } from '../lib/lru-cache.ts';
import { type Awaitable, chain, err, ok, type Result } from '../lib/result.ts';
import { singleFlights } from '../lib/single-flight.ts';
import type { Problem } from '../problem.ts';

export type CheckBlock = (owner: string) => Awaitable<Result<void, Problem>>;

const OWNERS_MAX = 10_000; // about 2 MB

export function createCheckBlock({ store, feed }: { store: Pick<KeyStore, 'isBlocked'>; feed: Feed }): CheckBlock {
  const known = createLruCache<boolean>({ entries: OWNERS_MAX });
  let changes = 0; // a read that began before a change must not be kept after it
  const reads = singleFlights<Result<boolean, Problem>>(); // nor be joined

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

  async function read(owner: string): Promise<Result<boolean, Problem>> {
    const changesBefore = changes;
    const blocked = await store.isBlocked(owner, feed.queryTimeoutMs);
    if (blocked.ok && changes === changesBefore) known.set(owner, blocked.value);
    return blocked;
  }

  const decide = (blocked: Result<boolean, Problem>): Result<void, Problem> => {
    if (!blocked.ok) return blocked;
    return blocked.value ? err({ code: 'user_blocked' }) : ok(undefined);
  };

  function decideNow(owner: string): Awaitable<Result<void, Problem>> {
    const blocked = known.get(owner);
    return chain(blocked === undefined ? reads.run(owner, () => read(owner)) : ok(blocked), decide);
  }

  return (owner) =>
    feed.current()
      ? decideNow(owner)
      : feed
          .ensureFresh()
          .then((current): Awaitable<Result<void, Problem>> => (current.ok ? decideNow(owner) : current));
}
