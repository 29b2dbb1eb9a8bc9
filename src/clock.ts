// Time and randomness, injected so that tests can move and fix them.

export interface Clock {
  /** Milliseconds since the Unix epoch: what is stored and shown. May step. */
  nowMs(): number;
  /** Milliseconds since some fixed start, never stepping back: what deadlines, windows and ages are measured with. */
  monotonicMs(): number;
}

/** `count` bytes from a CSPRNG. */
export type RandomBytes = (count: number) => Uint8Array;

export const systemClock: Clock = { nowMs: () => Date.now(), monotonicMs: () => performance.now() };

export const systemRandom: RandomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));
