// Reads keys that this process doesn't know, so that a flood of guesses costs little and keeps nobody else's key out.
// Each source, usually an address, has a token bucket of reads; good keys give theirs back. Beyond it, or beyond
// ALONE_MAX reads at once, its keys are read together (a data loader): one statement at a time, with all that came
// meanwhile. Callers wait for that, so a flood slows itself down. Only what finds no place in the next statement is
// refused, and who gets one is drawn (reservoir sampling): each has the same chance.

import { networkOf } from '../lib/ip.ts';
import { type Awaitable, err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { sleep } from '../lib/timeout.ts';
import { LIMITS } from '../limits/index.ts';
import { createTokenBuckets } from '../limits/token-bucket.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreResult } from '../problem.ts';
import type { Caller } from './actor.ts';
import type { Feed } from './feed.ts';
import { refusalAt } from './record.ts';
import type { Found, KeyStore } from './store.ts';

/** Keys in one statement, and places in the next one. It holds up a local file's process for 2 ms. */
const TOGETHER_MAX = 500;
/** From the start of a source's statement to its next one. Read so, a key costs a tenth of what it costs alone. */
const TOGETHER_EVERY_MS = 25;
/** Reads of one source at once that its bucket pays for: a remote database has 64 for all (remote/database.ts). */
const ALONE_MAX = 16;
/** Keys of all sources that may wait, at some kilobytes each. */
const WAITING_MAX = 10_000;

export interface UnknownKeys {
  find(keyHash: string, caller: Caller): Promise<Result<Found, Problem>>;
  /** What the store has for all of these, or why one of them couldn't be looked up. */
  findAll(keyHashes: readonly string[], caller: Caller): Promise<Result<readonly Found[], Problem>>;
  /** Statements so far. */
  readonly reads: number;
}

export interface UnknownKeysOptions {
  readonly store: Pick<KeyStore, 'findByHash' | 'findByHashes'>;
  readonly feed: Pick<Feed, 'position' | 'queryTimeoutMs'>;
  readonly clock: Clock;
  readonly log: Log;
}

interface Waiter {
  readonly keyHash: string;
  /** Null: there was no place. */
  readonly resolve: (found: Result<Found, Problem> | null) => void;
  readonly reject: (bug: unknown) => void;
}

interface Source {
  /** The network whose bucket pays, or the key that asks about others. */
  readonly name: string;
  alone: number;
  /** Those who have a place in the next statement. */
  next: Waiter[];
  /** How many wanted one. */
  seen: number;
  /** True while its statements follow each other. */
  serving: boolean;
}

export function createUnknownKeys({ store, feed, clock, log }: UnknownKeysOptions): UnknownKeys {
  const budgets = createTokenBuckets(LIMITS.unknownKeys, clock);
  const sources = new Map<string, Source>();
  let waiting = 0;
  let reads = 0;

  function sourceOf(caller: Caller): Source {
    const name = caller.lookupKeyId === undefined ? networkOf(caller.clientAddress()) : `key ${caller.lookupKeyId}`;
    const known = sources.get(name);
    if (known !== undefined) return known;
    const source: Source = { name, alone: 0, next: [], seen: 0, serving: false };
    sources.set(name, source);
    return source;
  }

  const isGood = ({ record }: Found) => record !== null && refusalAt(record, clock.nowMs()) === null;

  const mayReadAlone = ({ name, alone }: Source, keys: number) => alone < ALONE_MAX && budgets.take(name, keys) === 0;

  /** Runs a read that is paid for, and gives back what good keys cost. A failed read costs too: it is as much work. */
  async function alone<T extends Found | readonly Found[]>(
    source: Source,
    read: () => Awaitable<Result<T, Problem>>,
  ): Promise<Result<T, Problem>> {
    source.alone += 1;
    reads += 1;
    try {
      const found = await read();
      if (found.ok) budgets.give(source.name, [found.value].flat().filter(isGood).length);
      return found;
    } finally {
      source.alone -= 1;
      if (source.alone === 0 && !source.serving) sources.delete(source.name);
    }
  }

  /** Null: it found no place, or lost the one it had to another. */
  function together(source: Source, keyHash: string): Promise<Result<Found, Problem> | null> {
    return new Promise((resolve, reject) => {
      place(source, { keyHash, resolve, reject });
      if (source.serving) return;
      source.serving = true;
      void serve(source); // reports what it throws to those who wait
    });
  }

  function place(source: Source, waiter: Waiter): void {
    source.seen += 1;
    if (source.next.length < TOGETHER_MAX) {
      if (waiting < WAITING_MAX) {
        waiting += 1;
        source.next.push(waiter);
      } else waiter.resolve(null);
      return;
    }
    const at = Math.floor(Math.random() * source.seen);
    const loser = source.next[at] ?? waiter;
    if (at < TOGETHER_MAX) source.next[at] = waiter;
    loser.resolve(null);
  }

  async function serve(source: Source): Promise<void> {
    await Promise.resolve(); // for those who come before the next microtask
    while (source.next.length > 0) {
      const waiters = source.next;
      source.next = [];
      source.seen = 0;
      await Promise.all([readTogether(source.name, waiters), sleep(TOGETHER_EVERY_MS)]);
    }
    source.serving = false;
    if (source.alone === 0) sources.delete(source.name);
  }

  async function readTogether(name: string, waiters: readonly Waiter[]): Promise<void> {
    reads += 1;
    try {
      const hashes = waiters.map(({ keyHash }) => keyHash);
      const found = await store.findByHashes(hashes, feed.queryTimeoutMs, name);
      for (const { keyHash, resolve } of waiters) resolve(found.ok ? ok(found.value(keyHash)) : found);
    } catch (bug) {
      for (const { reject } of waiters) reject(bug);
    } finally {
      waiting -= waiters.length;
    }
  }

  async function readAll(name: string, keyHashes: readonly string[]): StoreResult<readonly Found[]> {
    const found = await store.findByHashes(keyHashes, feed.queryTimeoutMs, name);
    return found.ok ? ok(keyHashes.map(found.value)) : found;
  }

  return {
    async find(keyHash, caller) {
      const source = sourceOf(caller);
      const { name } = source;
      if (mayReadAlone(source, 1)) {
        return alone(source, () => store.findByHash(keyHash, feed.position, feed.queryTimeoutMs, name));
      }
      return (await together(source, keyHash)) ?? refused(name, caller, log);
    },

    async findAll(keyHashes, caller) {
      const source = sourceOf(caller);
      const { name } = source;
      if (mayReadAlone(source, keyHashes.length)) return alone(source, () => readAll(name, keyHashes));
      const all: Found[] = [];
      for (const found of await Promise.all(keyHashes.map((keyHash) => together(source, keyHash)))) {
        if (found === null) return refused(name, caller, log);
        if (!found.ok) return found;
        all.push(found.value);
      }
      return ok(all);
    },

    get reads() {
      return reads;
    },
  };
}

function refused(name: string, { requestId, lookupKeyId: keyId }: Caller, log: Log): Result<never, Problem> {
  log.warnThrottled('Too many unknown keys', name, {
    requestId,
    ...(keyId === undefined ? { address: name } : { keyId }),
  });
  return err({ code: 'rate_limited', retryAfterS: 1 });
}
