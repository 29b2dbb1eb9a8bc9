// Single-flight: one run at a time, or one for each key, shared by all who ask for it meanwhile.

export interface SingleFlight<T> {
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
