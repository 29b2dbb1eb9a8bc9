// What is worked out once for many: an approximate LRU cache, what is memoized by it, and single-flight.

interface LruCache<Value> {
  /** Finding an entry counts as using it. */
  get(key: string): Value | undefined;
  set(key: string, value: Value): void;
  delete(key: string): void;
  /** Deletes all that fit. Walks the whole cache. */
  deleteWhere(fits: (value: Value) => boolean): void;
  clear(): void;
}

/** The most it holds. The most recently used entries are certain to stay while they fill no more than half of it. */
interface Bounds<Value> {
  readonly entries?: number;
  /** Of all values together, by `bytesOf`. */
  readonly bytes?: number;
  readonly bytesOf?: (value: Value) => number;
  /** Of values that hold their keys: else each hit on an old one may keep another string of the same text. */
  readonly keyOf?: (value: Value) => string;
}

/**
 * A map of bounded size that keeps recently used entries, in two generations. New entries are young, and a hit on an
 * old one makes it young again. When the young ones fill half of the bounds, they become the old ones, and those are
 * evicted at once. (The usual LRU deletes a Map's first key again and again: to find it, the Map walks past all that
 * were deleted before.)
 */
export function createLruCache<Value>(bounds: Bounds<Value>): LruCache<Value> {
  const { entries: entriesMax = Infinity, bytes: bytesMax = Infinity, bytesOf = () => 0, keyOf } = bounds;
  let young = new Map<string, Value>();
  let old = new Map<string, Value>();
  let youngBytes = 0;

  function put(key: string, value: Value): void {
    const bytes = bytesOf(value);
    if (young.size > 0 && (young.size + 1 > entriesMax / 2 || youngBytes + bytes > bytesMax / 2)) {
      old = young;
      young = new Map();
      youngBytes = 0;
    }
    young.set(keyOf?.(value) ?? key, value);
    youngBytes += bytes;
  }

  function remove(key: string): void {
    const value = young.get(key);
    if (value !== undefined && young.delete(key)) youngBytes -= bytesOf(value);
    old.delete(key);
  }

  return {
    get(key) {
      const hit = young.get(key);
      if (hit !== undefined) return hit;
      const aged = old.get(key);
      if (aged === undefined) return undefined;
      old.delete(key);
      put(key, aged);
      return aged;
    },
    set(key, value) {
      remove(key);
      put(key, value);
    },
    delete: remove,
    deleteWhere(fits) {
      for (const map of [young, old]) for (const [key, value] of map) if (fits(value)) remove(key);
    },
    clear() {
      young = new Map();
      old = new Map();
      youngBytes = 0;
    },
  };
}

const MEMOIZED_MAX = 1000;
/** A longer text is not worth keeping. */
const MEMOIZED_CHARS_MAX = 255;

/** Memoizes a decision over texts, in an LRU cache. */
export function memoize<Decision>(decide: (text: string) => Decision): (text: string) => Decision {
  const decided = createLruCache<Decision>({ entries: MEMOIZED_MAX });
  return (text) => {
    const known = decided.get(text);
    if (known !== undefined) return known;
    const decision = decide(text);
    if (text.length <= MEMOIZED_CHARS_MAX) decided.set(text, decision);
    return decision;
  };
}

/** Makes a value when it is first asked for, and keeps it. */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

interface SingleFlight<T> {
  /** Joins the run under way, or starts one. */
  run(): Promise<T>;
  readonly underWay: Promise<T> | undefined;
}

export function singleFlight<T>(start: () => Promise<T>): SingleFlight<T> {
  let underWay: Promise<T> | undefined;
  return {
    run() {
      underWay ??= start().finally(() => {
        underWay = undefined;
      });
      return underWay;
    },
    get underWay() {
      return underWay;
    },
  };
}

export interface SingleFlights<T> {
  /** Joins the key's run under way, or starts one. */
  run(key: string, start: () => Promise<T>): Promise<T>;
  /** The key's run under way, which may have missed a change, is joined no more. */
  forget(key: string): void;
  /** The same for all keys. */
  forgetAll(): void;
}

export function singleFlights<T>(): SingleFlights<T> {
  const runs = new Map<string, Promise<T>>();
  return {
    run(key, start) {
      const underWay = runs.get(key);
      if (underWay !== undefined) return underWay;
      const run = start().finally(() => {
        if (runs.get(key) === run) runs.delete(key);
      });
      runs.set(key, run);
      return run;
    },
    forget(key) {
      runs.delete(key);
    },
    forgetAll() {
      runs.clear();
    },
  };
}
