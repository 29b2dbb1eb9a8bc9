// What many use at the same time: a total, and a part of it for each owner, so that nobody can have all. Who finds
// nothing left is refused, or waits in the owner's queue; queues are served in turn (round robin), one of each owner.

import type { Clock } from '../runtime.ts';

export interface Bounds {
  readonly total: number;
  readonly each: number;
}

/** Gives back what was taken. May be called again. */
export type Release = () => void;

export interface Share {
  /** Null, with nothing taken, when there is not so much left for this owner. */
  take(owner: string, amount: number): Release | null;
}

export interface WaitingShare {
  /** Takes one, after waiting for its turn up to `withinMs`. Null after that, or at once when too many wait. */
  wait(owner: string, withinMs: number): Promise<Release | null>;
}

/** Null: nothing was left in time. */
type Settle = (release: Release | null) => void;

export function createShare(bounds: Bounds): Share {
  const takenBy = new Map<string, number>(); // of owners that have any
  let taken = 0;

  function give(owner: string, amount: number): void {
    const own = (takenBy.get(owner) ?? 0) - amount;
    if (own > 0) takenBy.set(owner, own);
    else takenBy.delete(owner);
    taken -= amount;
  }

  return {
    take(owner, amount) {
      const own = (takenBy.get(owner) ?? 0) + amount;
      if (own > bounds.each || taken + amount > bounds.total) return null;
      takenBy.set(owner, own);
      taken += amount;
      return once(() => give(owner, amount));
    },
  };
}

/** `waitingBounds`: how many may wait. */
export function createWaitingShare(bounds: Bounds, waitingBounds: Bounds, clock: Pick<Clock, 'after'>): WaitingShare {
  const share = createShare(bounds);
  const queues = new Map<string, Settle[]>(); // of owners with somebody waiting, in the order of their turns
  let waiting = 0;

  function takeOne(owner: string): Release | null {
    const release = share.take(owner, 1);
    if (release === null) return null;
    return once(() => {
      release();
      serve();
    });
  }

  function leave(owner: string, queue: Settle[], settle: Settle): void {
    queue.splice(queue.indexOf(settle), 1);
    if (queue.length === 0) queues.delete(owner);
    waiting -= 1;
  }

  /** One of each owner, in turn, as long as there is something left. */
  function serve(): void {
    for (const [owner, queue] of queues) {
      const [first] = queue;
      const release = first === undefined ? null : takeOne(owner);
      if (first === undefined || release === null) continue; // this owner has its part
      leave(owner, queue, first);
      if (queue.length > 0) {
        queues.delete(owner);
        queues.set(owner, queue); // at the end of the turns, where the loop comes by again
      }
      first(release);
    }
  }

  /** Whoever finds no place takes that of the last in the longest queue, unless its own would become as long. */
  function makePlace(ownLength: number): boolean {
    if (waiting < waitingBounds.total) return true;
    const [owner, longest] = [...queues].reduce((a, b) => (b[1].length > a[1].length ? b : a));
    const last = longest.at(-1);
    if (last === undefined || longest.length <= ownLength + 1) return false;
    leave(owner, longest, last);
    last(null);
    return true;
  }

  function queue(owner: string, withinMs: number): Promise<Release | null> {
    return new Promise((resolve) => {
      const own = queues.get(owner) ?? [];
      const cancel = clock.after(withinMs, () => {
        leave(owner, own, settle);
        resolve(null);
      });
      const settle: Settle = (release) => {
        cancel();
        resolve(release);
      };
      own.push(settle);
      queues.set(owner, own);
      waiting += 1;
    });
  }

  return {
    async wait(owner, withinMs) {
      const ownLength = queues.get(owner)?.length ?? 0;
      const now = ownLength === 0 ? takeOne(owner) : null;
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
