// Single-flight: one run at a time, shared by all who ask for it meanwhile.

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
