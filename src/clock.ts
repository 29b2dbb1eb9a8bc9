// Time and randomness, injected so that tests can move and fix them; and SHA-256, of which each runtime has its own.

export interface Clock {
  /** Milliseconds since the Unix epoch: what is stored and shown. May step. */
  nowMs(): number;
  /** Milliseconds since some fixed start, never stepping back: what deadlines, windows and ages are measured with. */
  monotonicMs(): number;
}

/** `count` bytes from a CSPRNG. */
export type RandomBytes = (count: number) => Uint8Array;

/** SHA-256 (FIPS 180-4) of a text's UTF-8 bytes. Bun's own loads and runs faster than that of node:crypto. */
export type Sha256 = (text: string, encoding: 'hex' | 'base64url') => string;

export const systemClock: Clock = { nowMs: () => Date.now(), monotonicMs: () => performance.now() };

export const systemRandom: RandomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));
