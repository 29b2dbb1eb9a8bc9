// Computes things once: an approximate LRU cache, memoization on top of it, and single-flight.

import { isPromise } from './result.ts';

/** The capacity. An entry used since the hand last passed it stays, unless PASSED_MAX others before it were, too. */
interface Bounds<Value> {
  readonly entries?: number;
  /** The most bytes of all values together, as measured by `bytesOf`. */
  readonly bytes?: number;
  readonly bytesOf?: (value: Value) => number;
  /** Takes each value that leaves the cache, unless it is cleared. `isEvicted`: for lack of room. */
  readonly onRemoved?: (value: Value, isEvicted: boolean) => void;
  /** Returns the key from a value that has it, so that no second copy of the string is kept. */
  readonly keyOf?: (value: Value) => string;
}

/** The most entries that one eviction passes, so that no call waits for a whole round. */
const PASSED_MAX = 64;

/**
 * Creates a bounded map that keeps recently used entries, by CLOCK, an approximation of LRU. Entries form a circle. When
 * it is full, a hand goes round, skips entries used since it last passed, and evicts the first other. (The usual LRU
 * deletes a Map's first key again and again, and to find it the Map walks past all deleted ones.)
 */
export function createLruCache<Value>(bounds: Bounds<Value>) {
  const { entries: entriesMax = Infinity, bytes: bytesMax = Infinity, bytesOf = () => 0, keyOf, onRemoved } = bounds;
  const places = new Map<string, number>(); // indices into the arrays below, which form the circle
  const keys: string[] = [];
  const values: Value[] = [];
  const sizes: number[] = [];
  const areUsed: boolean[] = [];
  let bytes = 0;
  let hand = 0;

  function put(place: number, key: string, value: Value, size: number, isUsed: boolean): void {
    places.set(key, place);
    keys[place] = key;
    values[place] = value;
    sizes[place] = size;
    areUsed[place] = isUsed;
  }

  /** Removes the entry at a place by moving the last one there. */
  function removeAt(place: number, isEvicted: boolean): void {
    onRemoved?.(values[place] as Value, isEvicted); // there is one at each place
    const [key, value, size, isUsed] = [keys.pop(), values.pop(), sizes.pop(), areUsed.pop()];
    const removed = place === keys.length ? key : keys[place];
    bytes -= (place === keys.length ? size : sizes[place]) ?? 0;
    places.delete(removed ?? '');
    if (place < keys.length) put(place, key as string, value as Value, size ?? 0, isUsed ?? false);
  }

  function evictOne(): void {
    for (let passed = 0; ; passed += 1) {
      hand = hand >= keys.length ? 0 : hand;
      if (areUsed[hand] !== true || passed === PASSED_MAX) break;
      areUsed[hand] = false;
      hand += 1;
    }
    removeAt(hand, true);
    hand += 1; // past the entry that has moved there, which is one of the newest
  }

  function remove(key: string): void {
    const place = places.get(key);
    if (place !== undefined) removeAt(place, false);
  }

  return {
    /** Returns an entry, and marks it as used. */
    get(key: string): Value | undefined {
      const place = places.get(key);
      if (place === undefined) return undefined;
      areUsed[place] = true;
      return values[place];
    },
    set(key: string, value: Value): void {
      remove(key);
      const size = bytesOf(value);
      while (keys.length > 0 && (keys.length + 1 > entriesMax || bytes + size > bytesMax)) evictOne();
      put(keys.length, keyOf?.(value) ?? key, value, size, false);
      bytes += size;
    },
    delete: remove,
    clear(): void {
      places.clear();
      for (const array of [keys, values, sizes, areUsed]) array.length = 0;
      bytes = 0;
    },
  };
}

const MEMOIZED_MAX = 1000;
/** Longer texts are not worth caching. */
const MEMOIZED_CHARS_MAX = 255;

/** Memoizes a decision over texts, in an LRU cache of so many entries. */
export function memoize<Decision>(
  decide: (text: string) => Decision,
  entries = MEMOIZED_MAX,
): (text: string) => Decision {
  const decided = createLruCache<Decision>({ entries });
  return (text) => {
    const known = decided.get(text);
    if (known !== undefined) return known;
    const decision = decide(text);
    if (text.length <= MEMOIZED_CHARS_MAX) decided.set(text, decision);
    return decision;
  };
}

/** Creates a function that computes a value on first use, and keeps it, unless it is a promise that rejects. */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  const forget = () => {
    made = undefined;
  };
  return () => {
    if (made !== undefined) return made;
    made = make();
    if (isPromise(made)) made.then(undefined, forget);
    return made;
  };
}

export function singleFlight<T>(start: () => Promise<T>) {
  let underWay: Promise<T> | undefined;
  return {
    /** Joins the run under way, or starts one. */
    run(): Promise<T> {
      underWay ??= start().finally(() => {
        underWay = undefined;
      });
      return underWay;
    },
    get underWay(): Promise<T> | undefined {
      return underWay;
    },
  };
}

/** Creates runs that are shared by key. `keep` takes what a run found, unless it was forgotten meanwhile. */
export function singleFlights<T>(keep?: (key: string, found: T) => void) {
  const runs = new Map<string, Promise<T>>();
  return {
    /** Joins the key's run under way, or starts one. */
    run(key: string, start: () => Promise<T>): Promise<T> {
      const underWay = runs.get(key);
      if (underWay !== undefined) return underWay;
      const isCurrent = () => runs.get(key) === run;
      const run = start()
        .then((found) => {
          if (isCurrent()) keep?.(key, found);
          return found;
        })
        .finally(() => isCurrent() && runs.delete(key));
      runs.set(key, run);
      return run;
    },
    /** Forgets the key's run under way, because it may have missed a change: later callers don't join it. */
    forget: (key: string): void => void runs.delete(key),
    forgetAll: (): void => runs.clear(),
  };
}
