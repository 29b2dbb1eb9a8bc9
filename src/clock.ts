// Time and randomness, injected so that tests can move and fix them; and SHA-256, which each runtime provides.

export interface Clock {
  /** Milliseconds since the Unix epoch, for times that are stored and shown. May step. */
  nowMs(): number;
  /** Milliseconds since some fixed start, for deadlines, windows and ages. Never steps back. */
  monotonicMs(): number;
}

/** `count` bytes from a CSPRNG. */
export type RandomBytes = (count: number) => Uint8Array;

/** SHA-256 (FIPS 180-4) of a text's UTF-8 bytes. Bun's own loads and runs faster than node:crypto's. */
export type Sha256 = (text: string, encoding: 'hex' | 'base64url') => string;

export const systemClock: Clock = { nowMs: () => Date.now(), monotonicMs: () => performance.now() };

export const systemRandom: RandomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));
