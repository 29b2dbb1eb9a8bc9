// Reads keys and codes that aren't cached, so that a flood of guesses costs little and delays nobody else. Each source,
// usually an address, has a data loader: one statement at a time, for all look-ups that arrived meanwhile. Keys pay from
// the source's token bucket, and good ones are refunded. Look-ups beyond the budget have a limited number of places, and
// their source's next statement waits (PAUSE_MS), so a flood slows itself down. Those without a place are refused.

import { networkOf } from '../ground/ip.ts';
import type { TokenBuckets } from '../ground/limits/rates.ts';
import { createReservoir, type Reservoir } from '../ground/limits/reservoir.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, outageIn, type Result } from '../ground/result.ts';
import { type Clock, sleep } from '../ground/runtime.ts';
import type { Usage } from '../uses/usage.ts';
import type { Log } from '../watch/log.ts';
import type { Caller } from './actor.ts';
import type { Feed } from './feed.ts';
import { refusalAt } from './record.ts';
import type { Found, KeyStore } from './store.ts';

/** Keys per statement. It holds up a local file's process for 2 ms. */
const STATEMENT_KEYS_MAX = 500;
/** From the start of a statement with over-budget keys to the next one. */
const PAUSE_MS = 25;
/**
 * Statements at once. An IPv6 /48 has 65,536 sources, so sources beyond these share one loader, which nobody's budget
 * pays for. More would not help: a shared statement costs a far primary, and this process, little more than a single key.
 */
const LOADERS_MAX = 8;
const SHARED_SOURCE = 'further networks';
/** The source of stale cache entries, whoever presents them: they cost no budget, and always have a place. */
const STALE_SOURCE = 'read again';
/** Over-budget look-ups that may wait: one statement's worth; for the shared source, ten. */
const PLACES = STATEMENT_KEYS_MAX;
const SHARED_PLACES = 10 * STATEMENT_KEYS_MAX;

interface LookupsOptions<T> {
  /** Reads all with one statement. `fairnessKey`: the source, which takes turns with others. */
  readonly readAll: (hashes: readonly string[], fairnessKey: string) => Promise<(hash: string) => T>;
  /** Returns whether a look-up is refunded to the budget. */
  readonly isGood: (found: T) => boolean;
  /** The token buckets of LIMITS.unknownKeys, shared by all kinds of look-ups. */
  readonly budgets: TokenBuckets;
  readonly log: Log;
}

interface Waiter<T> {
  readonly hash: string;
  /** Takes null if there was no place. */
  readonly resolve: (found: Result<T, Problem> | null) => void;
  readonly reject: (error: unknown) => void;
}

/** Exists while it has statements to run. */
interface Loader<T> {
  /** The network, or the key of a service that verifies others. */
  readonly source: string;
  readonly withinBudget: Waiter<T>[];
  readonly overBudget: Reservoir<Waiter<T>>;
}

/** Creates look-ups of one kind: unknown keys, or what else strangers may guess. */
export function createLookups<T>({ readAll, isGood, budgets, log }: LookupsOptions<T>) {
  const loaders = new Map<string, Loader<T>>();
  let reads = 0;

  function loaderFor(source: string): Loader<T> {
    const known = loaders.get(source);
    if (known !== undefined) return known;
    const isReserved = source === SHARED_SOURCE || source === STALE_SOURCE;
    if (loaders.size >= LOADERS_MAX && !isReserved) return loaderFor(SHARED_SOURCE);
    const places = source === SHARED_SOURCE ? SHARED_PLACES : PLACES;
    const loader: Loader<T> = { source, withinBudget: [], overBudget: createReservoir(places) };
    loaders.set(source, loader);
    void serve(loader); // rejects the waiting look-ups if it fails
    return loader;
  }

  async function serve(loader: Loader<T>): Promise<void> {
    const { source, withinBudget, overBudget } = loader;
    await Promise.resolve(); // collects look-ups until the next microtask
    while (withinBudget.length + overBudget.size > 0) {
      const paying = withinBudget.splice(0, STATEMENT_KEYS_MAX);
      const others = overBudget.take(STATEMENT_KEYS_MAX - paying.length);
      const reading = read(source, [...paying, ...others], paying.length);
      if (others.length > 0) await sleep(PAUSE_MS);
      await reading;
    }
    loaders.delete(source);
  }

  /** Reads the keys of waiters; the first `paying` took from the budget. A failed read isn't refunded: it is as much work. */
  async function read(source: string, waiters: readonly Waiter<T>[], paying: number): Promise<void> {
    reads += 1;
    try {
      const foundBy = await readAll(
        waiters.map(({ hash }) => hash),
        source,
      );
      const all = waiters.map(({ hash }) => foundBy(hash));
      budgets.give(source, all.slice(0, paying).filter(isGood).length);
      for (const [at, found] of all.entries()) waiters[at]?.resolve(ok(found));
    } catch (error) {
      for (const { reject } of waiters) reject(error);
    }
  }

  async function findFor(source: string, hash: string, caller: Caller): Promise<Result<T, Problem>> {
    const found = await new Promise<Result<T, Problem> | null>((resolve, reject) => {
      const loader = loaderFor(source);
      const isWithinBudget = source === STALE_SOURCE || (loader.source === source && budgets.take(source) === 0);
      if (isWithinBudget) loader.withinBudget.push({ hash, resolve, reject });
      else loader.overBudget.offer({ hash, resolve, reject })?.resolve(null);
    });
    return found ?? err(tooMany(source, caller, log));
  }

  return {
    /** Looks up this hash in the store. Refused when the source exceeds its places. */
    find: (hash: string, caller: Caller): Promise<Result<T, Problem>> => findFor(sourceOf(caller), hash, caller),
    /** Reads again what is cached but stale, at no cost to the caller's budget. */
    findAgain: (hash: string, caller: Caller): Promise<Result<T, Problem>> => findFor(STALE_SOURCE, hash, caller),
    get reads() {
      return reads;
    },
  };
}

/** Returns whose budget of unknown keys pays: the network's, or that of the key of a service that verifies others. */
export const sourceOf = (caller: Caller): string =>
  caller.lookupKeyId === undefined ? networkOf(caller.clientAddress()) : `key ${caller.lookupKeyId}`;

/** Returns the refusal of a source for which there is no place, and logs it. */
export function tooMany(source: string, { requestId, lookupKeyId: keyId }: Caller, log: Log): Problem {
  log.warnThrottled('Too many unknown keys', source, {
    requestId,
    ...(keyId === undefined ? { address: source } : { keyId }),
  });
  return { code: 'rate_limited', retryAfterS: 1 };
}

/** Who may answer: the primary alone, or a replica, too. */
export type ReadFrom = 'primary' | 'any';

/** Reads keys with their counts. */
export type ReadKeys = ReturnType<typeof createReadKeys>;

export const createReadKeys =
  (store: KeyStore, feed: Pick<Feed, 'position' | 'queryTimeoutMs' | 'pollNow'>, usage: Usage) =>
  (hashes: readonly string[], from: ReadFrom, fairnessKey?: string) => {
    const asOf = usage.countsAsOf();
    const onAhead = () => void feed.pollNow().catch(outageIn); // or it would say nothing until the next poll
    const reader = from === 'any' && usage.knowsAllCounts() ? { at: feed.position, onAhead } : null;
    return store.findByHashes(hashes, { reader, withinMs: feed.queryTimeoutMs, fairnessKey, asOf });
  };

export type UnknownKeys = ReturnType<typeof createLookups<Found>>;

export const createUnknownKeys = (
  readKeys: ReadKeys,
  from: ReadFrom,
  budgets: TokenBuckets,
  clock: Clock,
  log: Log,
): UnknownKeys =>
  createLookups({
    readAll: (hashes, fairnessKey) => readKeys(hashes, from, fairnessKey),
    isGood: ({ record }) => record !== null && refusalAt(record, clock.nowMs()) === null,
    budgets,
    log,
  });
