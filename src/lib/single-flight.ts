// Single-flight: one run at a time, or one for each key, shared by all who ask for it meanwhile.

export interface SingleFlight<T> {
  /** What the run under way resolves to; starts one if there is none. */
  run(): Promise<T>;
  /** The run under way. */
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
  /** What the key's run under way resolves to; `start` begins one if there is none. */
  run(key: string, start: () => Promise<T>): Promise<T>;
  /** Who comes later doesn't join the key's run under way, which may have missed a change. */
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
