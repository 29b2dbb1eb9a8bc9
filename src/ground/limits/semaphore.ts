// Semaphores with a total and a part for each owner, so that nobody can take everything. The fair one queues owners, and
// serves their queues in turn (round robin); the other refuses.

import type { Clock } from '../runtime.ts';
import { createQueues, type Owner } from './queues.ts';

export interface Bounds {
  readonly total: number;
  readonly each: number;
}

/** Releases what was acquired. May be called repeatedly. */
export type Release = () => void;

export interface Semaphore {
  /** Acquires an amount. Returns null, with nothing acquired, if less is left for this owner. */
  tryAcquire(owner: Owner, amount: number): Release | null;
  /** Whether nothing is left for anybody. */
  readonly isEmpty: boolean;
}

export interface FairSemaphore {
  /** Acquires one, waiting up to `withinMs`. Returns null after that, or at once if too many wait. */
  acquire(owner: Owner, withinMs: number): Promise<Release | null>;
}

/** Ends a wait; null: nothing was left in time. */
type Settle = (release: Release | null) => void;

export function createSemaphore(bounds: Bounds): Semaphore {
  const takenBy = new Map<Owner, number>(); // of owners that have any
  let taken = 0;

  function release(owner: Owner, amount: number): void {
    const own = (takenBy.get(owner) ?? 0) - amount;
    if (own > 0) takenBy.set(owner, own);
    else takenBy.delete(owner);
    taken -= amount;
  }

  return {
    tryAcquire(owner, amount) {
      const own = (takenBy.get(owner) ?? 0) + amount;
      if (own > bounds.each || taken + amount > bounds.total) return null;
      takenBy.set(owner, own);
      taken += amount;
      return once(() => release(owner, amount));
    },
    get isEmpty() {
      return taken >= bounds.total;
    },
  };
}

/** Creates a semaphore for which owners wait in turn, as many as `waitingBounds` allows. */
export function createFairSemaphore(bounds: Bounds, waitingBounds: Bounds, clock: Clock): FairSemaphore {
  const semaphore = createSemaphore(bounds);
  const queues = createQueues<Settle>();

  function tryAcquireOne(owner: Owner): Release | null {
    const release = semaphore.tryAcquire(owner, 1);
    if (release === null) return null;
    return once(() => {
      release();
      serve();
    });
  }

  /** Gives one to each waiting owner, in turn, while something is left. */
  function serve(): void {
    for (const [owner, first] of queues.turns()) {
      if (semaphore.isEmpty) return;
      const release = tryAcquireOne(owner);
      if (release === null) continue; // this owner has its part
      queues.shift(owner);
      first(release);
    }
  }

  /** Makes a place for one more. If there is none, evicts the last of the longest queue, unless its own would be as long. */
  function makePlace(ownLength: number): boolean {
    if (queues.size < waitingBounds.total) return true;
    const longest = queues.longest();
    if (longest === null || longest.length <= ownLength + 1) return false;
    queues.remove(longest.owner, longest.last);
    longest.last(null);
    return true;
  }

  function queue(owner: Owner, withinMs: number): Promise<Release | null> {
    return new Promise((resolve) => {
      const cancel = clock.after(withinMs, () => {
        queues.remove(owner, settle);
        resolve(null);
      });
      const settle: Settle = (release) => {
        cancel();
        resolve(release);
      };
      queues.push(owner, settle);
    });
  }

  return {
    async acquire(owner, withinMs) {
      const ownLength = queues.lengthOf(owner);
      const now = ownLength === 0 ? tryAcquireOne(owner) : null;
      if (now !== null) return now;
      return ownLength < waitingBounds.each && makePlace(ownLength) ? queue(owner, withinMs) : null;
    },
  };
}

function once(run: () => void): Release {
  let ran = false;
  return () => {
    if (ran) return;
    ran = true;
    run();
  };
}
