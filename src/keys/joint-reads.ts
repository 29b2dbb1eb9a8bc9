// Looks up many keys with one statement, in which a key costs a thirtieth of what it costs alone. Each bucket has
// statements of its own, so that no bucket waits for another's keys.

import { sleep } from '../lib/timeout.ts';

/** Keys that come within this time are looked up together; so are those that come while a look-up is under way. */
const GATHER_MS = 25;
/** Keys in one statement, which blocks a local file's process for 3 to 5 ms then. */
const KEYS_MAX = 1000;
/** Keys that a bucket gathers for its next look-up: room for more than a server can be asked for, even a slow one. */
const PLACES = 4 * KEYS_MAX;
/** Keys that may wait in all, at some kilobytes each. */
const WAITING_MAX = 10_000;

export interface JointReads<Found> {
  /** Null: more keys are waiting than can be served. */
  read(bucket: string, keyHash: string): Promise<Found | null>;
}

interface Waiter<Found> {
  readonly keyHash: string;
  readonly resolve: (found: Found | null) => void;
  readonly reject: (bug: unknown) => void;
}

/** The keys of a bucket's next look-up. */
interface Batch<Found> {
  readonly waiters: Waiter<Found>[];
  /** Those that found no place included. */
  came: number;
}

/** `readAll` resolves to a function from a key's hash to what was found. */
export function createJointReads<Found>(
  readAll: (keyHashes: readonly string[]) => Promise<(keyHash: string) => Found>,
): JointReads<Found> {
  const batches = new Map<string, Batch<Found>>();
  let waiting = 0;

  function startBatch(bucket: string): Batch<Found> {
    const batch = { waiters: [], came: 0 };
    batches.set(bucket, batch);
    return batch;
  }

  function batchOf(bucket: string): Batch<Found> {
    const batch = batches.get(bucket);
    if (batch !== undefined) return batch;
    void serve(bucket); // reports what it throws to those who wait
    return startBatch(bucket);
  }

  /** When all places are taken, each who comes has the same chance of one, in whatever order (reservoir sampling). */
  function place(batch: Batch<Found>, waiter: Waiter<Found>): void {
    batch.came += 1;
    if (batch.waiters.length < PLACES) {
      batch.waiters.push(waiter);
      waiting += 1;
      return;
    }
    const at = Math.floor(Math.random() * batch.came);
    const loser = batch.waiters[at] ?? waiter;
    if (at < PLACES) batch.waiters[at] = waiter;
    loser.resolve(null);
  }

  async function serve(bucket: string): Promise<void> {
    for (;;) {
      await sleep(GATHER_MS);
      const { waiters } = batchOf(bucket);
      if (waiters.length === 0) break;
      startBatch(bucket);
      const statements = [];
      for (let from = 0; from < waiters.length; from += KEYS_MAX) {
        statements.push(settle(waiters.slice(from, from + KEYS_MAX)));
      }
      await Promise.all(statements);
      waiting -= waiters.length;
    }
    batches.delete(bucket);
  }

  async function settle(waiters: readonly Waiter<Found>[]): Promise<void> {
    try {
      const find = await readAll(waiters.map(({ keyHash }) => keyHash));
      for (const { keyHash, resolve } of waiters) resolve(find(keyHash));
    } catch (bug) {
      for (const { reject } of waiters) reject(bug);
    }
  }

  return {
    read(bucket, keyHash) {
      if (waiting >= WAITING_MAX) return Promise.resolve(null);
      return new Promise((resolve, reject) => place(batchOf(bucket), { keyHash, resolve, reject }));
    },
  };
}
