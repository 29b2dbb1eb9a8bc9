// A semaphore with a total and a part for each owner, so that nobody can take everything. Owners queue, and their queues are
// served in turn (round robin).

import type { Clock } from '../runtime.ts';
import { createQueues, type Owner } from './queues.ts';

export interface Bounds {
  readonly total: number;
  readonly each: number;
}

/** Releases what was acquired. May be called repeatedly. */
export type Release = () => void;

export interface FairSemaphore {
  /** Acquires one, waiting up to `withinMs`. Returns null after that, or at once if too many wait. */
  acquire(owner: Owner, withinMs: number): Promise<Release | null>;
}

/** Ends a wait; null: nothing was left in time. */
type Settle = (release: Release | null) => void;

/** Creates a semaphore for which owners wait in turn, as many as `waitingBounds` allows. */
export function createFairSemaphore(bounds: Bounds, waitingBounds: Bounds, clock: Clock): FairSemaphore {
  const takenBy = new Map<Owner, number>(); // of owners that have any
  let taken = 0;
  const queues = createQueues<Settle>();

  /** Acquires one. Returns null if none is left for this owner. */
  function tryAcquire(owner: Owner): Release | null {
    const own = takenBy.get(owner) ?? 0;
    if (own >= bounds.each || taken >= bounds.total) return null;
    takenBy.set(owner, own + 1);
    taken += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      release(owner);
    };
  }

  function release(owner: Owner): void {
    const left = (takenBy.get(owner) ?? 0) - 1;
    if (left > 0) takenBy.set(owner, left);
    else takenBy.delete(owner);
    taken -= 1;
    serve();
  }

  /** Gives one to each waiting owner, in turn, while something is left. */
  function serve(): void {
    for (const [owner, first] of queues.turns()) {
      if (taken >= bounds.total) return;
      const acquired = tryAcquire(owner);
      if (acquired === null) continue; // this owner has its part
      queues.shift(owner);
      first(acquired);
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
      const now = ownLength === 0 ? tryAcquire(owner) : null;
      if (now !== null) return now;
      return ownLength < waitingBounds.each && makePlace(ownLength) ? queue(owner, withinMs) : null;
    },
  };
}
