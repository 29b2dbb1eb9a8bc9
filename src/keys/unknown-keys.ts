// Reads keys, and codes, that this process doesn't know, so that a flood of guesses costs little and keeps nobody else's
// out. Each source, usually an address, has a data loader: one statement at a time, with all that came meanwhile. Its
// token bucket pays for keys, and gets back what good ones took. Those beyond it have only so many places, and are
// followed by a pause. Callers wait for that, so a flood slows itself down. Who gets a place is drawn (reservoir
// sampling), so each has the same chance; the others are refused.

import { networkOf } from '../ground/ip.ts';
import { LIMITS } from '../ground/limits/index.ts';
import { createTokenBuckets, type TokenBuckets } from '../ground/limits/rates.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { type Clock, sleep } from '../ground/runtime.ts';
import type { Usage } from '../uses/usage.ts';
import type { Log } from '../watch/log.ts';
import type { Caller } from './actor.ts';
import { ownRefusalAt, parentRefusalAt } from './child.ts';
import type { Feed } from './feed.ts';
import { refusalAt } from './record.ts';
import type { CodeRow, CodeStore, Found, KeyStore } from './store.ts';

/** Keys in one statement. It holds up a local file's process for 2 ms. */
const STATEMENT_KEYS_MAX = 500;
/** From the start of a statement with keys beyond the budget to the next one. */
const PAUSE_MS = 25;
/**
 * Statements at once. Whoever has an IPv6 /48 is 65,536 sources, so further ones share a loader, where nobody pays. More
 * would help nobody: a shared statement costs a far primary, and this process, little more than one for a single key.
 */
const LOADERS_MAX = 8;
/** The source of those. */
const FURTHER_ONES = 'further networks';
/** The source of what was good a moment ago, whoever presents it: it takes from no budget, and always has a place. */
const AGAIN = 'read again';
/** Keys beyond the budget that may wait: as many as one statement has. Of all further sources: as ten have. */
const PLACES = STATEMENT_KEYS_MAX;
const SHARED_PLACES = 10 * STATEMENT_KEYS_MAX;

export interface LookupsOptions<T> {
  /** Reads all with one statement. `fairnessKey`: the source, which takes turns with others. */
  readonly readAll: (hashes: readonly string[], fairnessKey: string) => Promise<(hash: string) => T>;
  /** Returns true for what gives back to the budget what its read took. */
  readonly isGood: (found: T) => boolean;
  /** The token buckets of LIMITS.unknownKeys, which all kinds of look-ups share. */
  readonly budgets: TokenBuckets;
  readonly log: Log;
}

interface Waiter<T> {
  readonly hash: string;
  /** Takes null if there was no place. */
  readonly resolve: (found: Result<T, Problem> | null) => void;
  readonly reject: (error: unknown) => void;
}

/** It is there while its statements follow each other. */
interface Loader<T> {
  /** The network, or the key that asks about others. */
  readonly source: string;
  readonly paid: Waiter<T>[];
  /** Those beyond the budget who have a place. */
  readonly drawn: Waiter<T>[];
  readonly places: number;
  /** How many wanted one. */
  seen: number;
}

export type Lookups<T> = ReturnType<typeof createLookups<T>>;

function createLookups<T>({ readAll, isGood, budgets, log }: LookupsOptions<T>) {
  const loaders = new Map<string, Loader<T>>();
  let reads = 0;

  function loaderFor(source: string): Loader<T> {
    const known = loaders.get(source);
    if (known !== undefined) return known;
    const isOfAll = source === FURTHER_ONES || source === AGAIN;
    if (loaders.size >= LOADERS_MAX && !isOfAll) return loaderFor(FURTHER_ONES);
    const places = source === FURTHER_ONES ? SHARED_PLACES : PLACES;
    const loader: Loader<T> = { source, paid: [], drawn: [], places, seen: 0 };
    loaders.set(source, loader);
    void serve(loader); // reports what it throws to those who wait
    return loader;
  }

  /** Gives it a place, if need be that of another, or none. */
  function draw(loader: Loader<T>, waiter: Waiter<T>): void {
    const { drawn, places } = loader;
    loader.seen += 1;
    if (drawn.length < places) {
      drawn.push(waiter);
      return;
    }
    const at = Math.floor(Math.random() * loader.seen);
    const loser = drawn[at] ?? waiter;
    if (loser !== waiter) drawn[at] = waiter;
    loser.resolve(null);
  }

  async function serve(loader: Loader<T>): Promise<void> {
    const { source, paid, drawn } = loader;
    await Promise.resolve(); // for those who come before the next microtask
    while (paid.length + drawn.length > 0) {
      const payers = paid.splice(0, STATEMENT_KEYS_MAX);
      const others = drawn.splice(0, STATEMENT_KEYS_MAX - payers.length);
      loader.seen = drawn.length;
      const reading = read(source, [...payers, ...others], payers.length);
      if (others.length > 0) await sleep(PAUSE_MS);
      await reading;
    }
    loaders.delete(source);
  }

  /**
   * Reads the keys of waiters, the first `paid` of whom have paid. A read that fails costs what it took too: it is as
   * much work.
   */
  async function read(source: string, waiters: readonly Waiter<T>[], paid: number): Promise<void> {
    reads += 1;
    try {
      const foundBy = await readAll(
        waiters.map(({ hash }) => hash),
        source,
      );
      const all = waiters.map(({ hash }) => foundBy(hash));
      if (paid > 0 && source !== AGAIN) budgets.give(source, all.slice(0, paid).filter(isGood).length);
      for (const [at, found] of all.entries()) waiters[at]?.resolve(ok(found));
    } catch (error) {
      for (const { reject } of waiters) reject(error);
    }
  }

  async function findFor(source: string, hash: string, caller: Caller): Promise<Result<T, Problem>> {
    const found = await new Promise<Result<T, Problem> | null>((resolve, reject) => {
      const loader = loaderFor(source);
      const isPaid = source === AGAIN || (loader.source === source && budgets.take(source) === 0);
      if (isPaid) loader.paid.push({ hash, resolve, reject });
      else draw(loader, { hash, resolve, reject });
    });
    return found ?? refused(source, caller, log);
  }

  return {
    /** Returns what the store has for this hash. Refused when the source asks for more than its places. */
    find: (hash: string, caller: Caller): Promise<Result<T, Problem>> => findFor(sourceOf(caller), hash, caller),
    /** Returns what the store has now for a hash that was good a moment ago. */
    findAgain: (hash: string, caller: Caller): Promise<Result<T, Problem>> => findFor(AGAIN, hash, caller),
    /** Returns how many statements there were so far. */
    get reads() {
      return reads;
    },
  };
}

const sourceOf = (caller: Caller): string =>
  caller.lookupKeyId === undefined ? networkOf(caller.clientAddress()) : `key ${caller.lookupKeyId}`;

function refused(source: string, { requestId, lookupKeyId: keyId }: Caller, log: Log): Result<never, Problem> {
  log.warnThrottled('Too many unknown keys', source, {
    requestId,
    ...(keyId === undefined ? { address: source } : { keyId }),
  });
  return err({ code: 'rate_limited', retryAfterS: 1 });
}

/** Creates the budgets of those who ask for unknown keys or codes. */
export const createLookupBudgets = (clock: Clock): TokenBuckets => createTokenBuckets(LIMITS.unknownKeys, clock);

/** Reads keys with the counts of their uses. `mayUseReplica`: a replica may be asked. */
export type ReadKeys = ReturnType<typeof createReadKeys>;

export const createReadKeys =
  (
    { findByHashes }: Pick<KeyStore, 'findByHashes'>,
    feed: Pick<Feed, 'position' | 'queryTimeoutMs'>,
    { beginRead }: Pick<Usage, 'beginRead'>,
  ) =>
  async (
    hashes: readonly string[],
    { mayUseReplica = false, fairnessKey }: { readonly mayUseReplica?: boolean; readonly fairnessKey?: string },
  ) => {
    const { asOf, merge } = beginRead();
    const atLeast = mayUseReplica ? feed.position : null;
    const found = await findByHashes(hashes, { atLeast, withinMs: feed.queryTimeoutMs, fairnessKey, asOf });
    for (const hash of hashes) merge(found(hash));
    return found;
  };

export type UnknownKeys = Lookups<Found>;

export const createUnknownKeys = (
  readKeys: ReadKeys,
  options: {
    readonly mayUseReplica: boolean;
    readonly budgets: TokenBuckets;
    readonly clock: Clock;
    readonly log: Log;
  },
): UnknownKeys =>
  createLookups({
    ...options,
    readAll: (hashes, fairnessKey) => readKeys(hashes, { mayUseReplica: options.mayUseReplica, fairnessKey }),
    isGood: (found) => isAccepted(found, options.clock.nowMs()),
  });

/** Returns whether what was found is a good key, or a child of one. */
export function isAccepted({ record, child }: Pick<Found, 'record' | 'child'>, nowMs: number): boolean {
  if (child === null) return record !== null && refusalAt(record, nowMs) === null;
  return ownRefusalAt(child, nowMs) === null && parentRefusalAt(child, record, nowMs) === null;
}

/** Reads what a code stands for; null: there is none. */
export type FindCode = Lookups<CodeRow | null>['find'];

export const createFindCode = ({ findAll }: CodeStore, budgets: TokenBuckets, log: Log): FindCode =>
  createLookups<CodeRow | null>({
    readAll: findAll,
    isGood: () => false, // unlike a key, it is read each time that somebody presents it
    budgets,
    log,
  }).find;
