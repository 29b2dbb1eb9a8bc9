// Reads keys, and codes, that this process doesn't know, so that a flood of guesses costs little and keeps nobody else's out.
// Each source, usually an address, has a token bucket of reads; good keys give theirs back. Beyond it, or beyond
// ALONE_MAX reads at once, its keys are read together (a data loader): one statement at a time, with all that came
// meanwhile. Callers wait for that, so a flood slows itself down. Only what finds no place in the next statement is
// refused, and who gets one is drawn (reservoir sampling): each has the same chance.

import { networkOf } from '../ground/ip.ts';
import { LIMITS } from '../ground/limits/index.ts';
import { createTokenBuckets, type TokenBuckets } from '../ground/limits/token-bucket.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { sleep } from '../ground/timeout.ts';
import type { Log } from '../watch/log.ts';
import type { Caller } from './actor.ts';
import type { Feed } from './feed.ts';
import { refusalAt } from './record.ts';
import type { CodeRow, CodeStore, Found, KeyStore } from './store.ts';

/** Keys in one statement, and places in the next one. It holds up a local file's process for 2 ms. */
const TOGETHER_MAX = 500;
/** From the start of a source's statement to its next one. Read so, a key costs a tenth of what it costs alone. */
const TOGETHER_EVERY_MS = 25;
/** Reads of one source at once that its bucket pays for: a remote database has 64 for all (remote/database.ts). */
const ALONE_MAX = 16;
/** The same of all sources: whoever has an IPv6 /48 is 65,536 of them. Beyond it, all are read together. */
const ALONE_TOTAL_MAX = 32;
/** The source in whose name those of all are read together. */
const ALL = 'all networks';
/** Keys of all sources that may wait, at some kilobytes each. */
const WAITING_MAX = 10_000;

export interface Lookups<T> {
  find(hash: string, caller: Caller): Promise<Result<T, Problem>>;
  /** What the store has for all of these, or why one of them couldn't be looked up. */
  findAll(hashes: readonly string[], caller: Caller): Promise<Result<readonly T[], Problem>>;
  /** Statements so far. */
  readonly reads: number;
}

interface LookupsOptions<T> {
  /** `whose`: the source, which takes turns with others. */
  readonly readOne: (hash: string, whose: string) => Promise<T>;
  /** All with one statement. */
  readonly readAll: (hashes: readonly string[], whose: string) => Promise<(hash: string) => T>;
  /** What gives back what its read took. */
  readonly isGood: (found: T) => boolean;
  /** Of LIMITS.unknownKeys, for all kinds of what is looked up together. */
  readonly budgets: TokenBuckets;
  readonly log: Log;
}

interface Waiter<T> {
  readonly hash: string;
  /** Null: there was no place. */
  readonly resolve: (found: Result<T, Problem> | null) => void;
  readonly reject: (error: unknown) => void;
}

interface Source<T> {
  /** The network whose bucket pays, or the key that asks about others. */
  readonly name: string;
  alone: number;
  /** Those who have a place in the next statement. */
  next: Waiter<T>[];
  /** How many wanted one. */
  seen: number;
  /** True while its statements follow each other. */
  serving: boolean;
}

function createLookups<T>(options: LookupsOptions<T>): Lookups<T> {
  const { readOne, readAll, isGood, budgets, log } = options;
  const sources = new Map<string, Source<T>>();
  let waiting = 0;
  let aloneTotal = 0;
  let reads = 0;

  function sourceNamed(name: string): Source<T> {
    const known = sources.get(name);
    if (known !== undefined) return known;
    const source: Source<T> = { name, alone: 0, next: [], seen: 0, serving: false };
    sources.set(name, source);
    return source;
  }

  const mayReadAlone = ({ name, alone }: Source<T>, keys: number) =>
    alone < ALONE_MAX && aloneTotal < ALONE_TOTAL_MAX && budgets.take(name, keys) === 0;

  /** Whose next statement has a place for who may not read alone. */
  const jointOf = (name: string) => sourceNamed(aloneTotal < ALONE_TOTAL_MAX ? name : ALL);

  const forgetIdle = ({ name, alone, serving }: Source<T>) => void (alone === 0 && !serving && sources.delete(name));

  /** Runs a read that is paid for, and gives back what good ones cost. A failed read costs too: it is as much work. */
  async function alone<R>(
    source: Source<T>,
    read: () => Promise<R>,
    good: (found: R) => number,
  ): Promise<Result<R, Problem>> {
    source.alone += 1;
    aloneTotal += 1;
    reads += 1;
    try {
      const found = await read();
      budgets.give(source.name, good(found));
      return ok(found);
    } finally {
      source.alone -= 1;
      aloneTotal -= 1;
      forgetIdle(source);
    }
  }

  /** Null: it found no place, or lost the one it had to another. */
  function together(source: Source<T>, hash: string): Promise<Result<T, Problem> | null> {
    return new Promise((resolve, reject) => {
      place(source, { hash, resolve, reject });
      if (source.serving) return;
      source.serving = true;
      void serve(source); // reports what it throws to those who wait
    });
  }

  function place(source: Source<T>, waiter: Waiter<T>): void {
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

  async function serve(source: Source<T>): Promise<void> {
    await Promise.resolve(); // for those who come before the next microtask
    while (source.next.length > 0) {
      const waiters = source.next;
      source.next = [];
      source.seen = 0;
      await Promise.all([readTogether(source.name, waiters), sleep(TOGETHER_EVERY_MS)]);
    }
    source.serving = false;
    forgetIdle(source);
  }

  async function readTogether(name: string, waiters: readonly Waiter<T>[]): Promise<void> {
    reads += 1;
    try {
      const found = await readAll(
        waiters.map(({ hash }) => hash),
        name,
      );
      for (const { hash, resolve } of waiters) resolve(ok(found(hash)));
    } catch (error) {
      for (const { reject } of waiters) reject(error);
    } finally {
      waiting -= waiters.length;
    }
  }

  return {
    async find(hash, caller) {
      const name = nameOf(caller);
      const source = sourceNamed(name);
      if (mayReadAlone(source, 1)) {
        return alone(
          source,
          () => readOne(hash, name),
          (found) => Number(isGood(found)),
        );
      }
      forgetIdle(source);
      return (await together(jointOf(name), hash)) ?? refused(name, caller, log);
    },

    async findAll(hashes, caller) {
      const name = nameOf(caller);
      const source = sourceNamed(name);
      if (mayReadAlone(source, hashes.length)) {
        return alone(
          source,
          async () => hashes.map(await readAll(hashes, name)),
          (found) => found.filter(isGood).length,
        );
      }
      forgetIdle(source);
      const joint = jointOf(name);
      const all: T[] = [];
      for (const found of await Promise.all(hashes.map((hash) => together(joint, hash)))) {
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

const nameOf = (caller: Caller): string =>
  caller.lookupKeyId === undefined ? networkOf(caller.clientAddress()) : `key ${caller.lookupKeyId}`;

function refused(name: string, { requestId, lookupKeyId: keyId }: Caller, log: Log): Result<never, Problem> {
  log.warnThrottled('Too many unknown keys', name, {
    requestId,
    ...(keyId === undefined ? { address: name } : { keyId }),
  });
  return err({ code: 'rate_limited', retryAfterS: 1 });
}

/** What those who ask for unknown keys or codes may read. */
export const createLookupBudgets = (clock: Clock): TokenBuckets => createTokenBuckets(LIMITS.unknownKeys, clock);

export interface UnknownKeysOptions {
  readonly store: Pick<KeyStore, 'findByHash' | 'findByHashes'>;
  readonly feed: Pick<Feed, 'position' | 'queryTimeoutMs'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly budgets?: TokenBuckets;
}

export type UnknownKeys = Lookups<Found>;

export const createUnknownKeys = ({
  store,
  feed,
  clock,
  log,
  budgets = createLookupBudgets(clock),
}: UnknownKeysOptions): UnknownKeys =>
  createLookups({
    readOne: (hash, whose) => store.findByHash(hash, feed.position, feed.queryTimeoutMs, whose),
    readAll: (hashes, whose) => store.findByHashes(hashes, feed.queryTimeoutMs, whose),
    isGood: ({ record }) => record !== null && refusalAt(record, clock.nowMs()) === null,
    budgets,
    log,
  });

/** Reads what a code stands for; null: there is none. */
export type FindCode = Lookups<CodeRow | null>['find'];

export const createFindCode = ({ findAll }: CodeStore, budgets: TokenBuckets, log: Log): FindCode =>
  createLookups<CodeRow | null>({
    readOne: async (hash, whose) => (await findAll([hash], whose))(hash),
    readAll: findAll,
    isGood: () => false, // unlike a key, it is read each time that somebody presents it
    budgets,
    log,
  }).find;
