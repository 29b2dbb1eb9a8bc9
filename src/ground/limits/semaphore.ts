// A semaphore with a total and a part for each owner, so that nobody can take everything. Owners queue, and their queues are
// served in turn (round robin).

import type { Clock } from '../runtime.ts';

export interface Bounds {
  readonly total: number;
  readonly each: number;
}

/** Releases what was acquired. To be called once. */
export type Release = () => void;

/** Ends a wait; null: nothing was left in time. */
type Settle = (release: Release | null) => void;

type FairSemaphore = ReturnType<typeof createFairSemaphore>;

/** Creates a semaphore for which owners wait in turn, as many as `waitingBounds` allows. */
export function createFairSemaphore(bounds: Bounds, waitingBounds: Bounds, clock: Clock) {
  const takenBy = new Map<Owner, number>(); // of owners that have any
  let taken = 0;
  const queues = createQueues<Settle>();

  /** Acquires one. Returns null if none is left for this owner. */
  function tryAcquire(owner: Owner): Release | null {
    const own = takenBy.get(owner) ?? 0;
    if (own >= bounds.each || taken >= bounds.total) return null;
    takenBy.set(owner, own + 1);
    taken += 1;
    return () => release(owner);
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
    /** Acquires one, waiting up to `withinMs`. Returns null after that, or at once if too many wait. */
    async acquire(owner: Owner, withinMs: number): Promise<Release | null> {
      const ownLength = queues.lengthOf(owner);
      const now = ownLength === 0 ? tryAcquire(owner) : null;
      if (now !== null) return now;
      return ownLength < waitingBounds.each && makePlace(ownLength) ? queue(owner, withinMs) : null;
    },
  };
}

/** Acquires one of each semaphore, in order, and waits up to `withinMs` for all. Returns null, and holds none, after that. */
export async function acquireAll(
  turns: readonly (readonly [semaphore: FairSemaphore, owner: Owner])[],
  withinMs: number,
  clock: Clock,
): Promise<Release | null> {
  const untilMs = clock.monotonicMs() + withinMs;
  const releases: Release[] = []; // the last first
  const releaseAll = () => {
    for (const release of releases) release();
  };
  for (const [semaphore, owner] of turns) {
    const release = await semaphore.acquire(owner, Math.max(0, untilMs - clock.monotonicMs()));
    if (release === null) {
      releaseAll();
      return null;
    }
    releases.unshift(release);
  }
  return releaseAll;
}

// One queue for each owner with waiting entries, served in turn. Only finding the longest one takes time by the number of
// owners: when no more may wait.

/** A name, or a symbol for those who share everything, because no name can be equal to it. */
type Owner = string | symbol;

export function createQueues<T>() {
  const queues = new Map<Owner, T[]>();
  let size = 0;

  function take(owner: Owner, queue: T[], at: number): void {
    queue.splice(at, 1);
    size -= 1;
    if (queue.length === 0) queues.delete(owner);
  }

  return {
    get size() {
      return size;
    },
    lengthOf: (owner: Owner): number => queues.get(owner)?.length ?? 0,
    push(owner: Owner, one: T): void {
      queues.getOrInsertComputed(owner, () => []).push(one);
      size += 1;
    },
    /** Removes an entry, if it still waits. */
    remove(owner: Owner, one: T): void {
      const queue = queues.get(owner);
      const at = queue?.indexOf(one) ?? -1;
      if (queue !== undefined && at >= 0) take(owner, queue, at);
    },
    /** Removes an owner's first entry; its next one has its turn last. */
    shift(owner: Owner): void {
      const queue = queues.get(owner);
      if (queue === undefined) return;
      take(owner, queue, 0);
      if (queue.length === 0) return;
      queues.delete(owner);
      queues.set(owner, queue);
    },
    /** Yields each owner's first entry, in turn; an owner whose first was shifted comes again. */
    *turns(): Generator<readonly [owner: Owner, first: T]> {
      for (const [owner, [first]] of queues) if (first !== undefined) yield [owner, first];
    },
    /** Returns the last entry of one of the longest queues; null if nobody waits. */
    longest(): { readonly owner: Owner; readonly last: T; readonly length: number } | null {
      let longest: { owner: Owner; last: T; length: number } | null = null;
      for (const [owner, queue] of queues) {
        const last = queue.at(-1);
        if (last !== undefined && queue.length > (longest?.length ?? 0))
          longest = { owner, last, length: queue.length };
      }
      return longest;
    },
  };
}
