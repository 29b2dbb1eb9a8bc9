// How long each part of the benchmark takes.

export interface Plan {
  /** Interleaved: each round runs every case, so that whatever slows the machine down for a while slows all of them. */
  readonly rounds: number;
  readonly roundS: number;
  /** Requests to each server before anything counts, so that the JIT has done its work. */
  readonly warmupRequests: number;
  /** A slow server's warm-up ends after this long, with fewer requests. */
  readonly warmupSMax: number;
  readonly starts: number;
}

/** Some minutes, on two cores. */
export const FULL: Plan = {
  rounds: 5,
  roundS: 2,
  warmupRequests: 300_000,
  warmupSMax: 15,
  starts: 15,
};

/** Half warmed up, so its figures are lower, and vary. */
export const QUICK: Plan = {
  rounds: 2,
  roundS: 1,
  warmupRequests: 20_000,
  warmupSMax: 1,
  starts: 5,
};
