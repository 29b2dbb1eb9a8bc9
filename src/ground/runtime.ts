// Time, timers and randomness, injected so that tests can move and fix them; and SHA-256, which each runtime provides.

export interface Clock {
  /** Milliseconds since the Unix epoch, for times that are stored and shown. May step. */
  nowMs(): number;
  /** Milliseconds from some fixed start, for deadlines, windows and ages. Never steps back; may not count sleep. */
  monotonicMs(): number;
  /** Runs `run` once, `ms` from now. Stands still while the machine sleeps. */
  after(ms: number, run: () => void): Cancel;
}

/** May be called at any time, and again. */
export type Cancel = () => void;

/** `count` bytes from a CSPRNG. */
export type RandomBytes = (count: number) => Uint8Array;

/** SHA-256 (FIPS 180-4) of a text's UTF-8 bytes. Bun's own loads and runs faster than node:crypto's. */
export type Sha256 = (text: string, encoding: 'hex' | 'base64url') => string;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

export const systemRandom: RandomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));

/** Shorter sleeps go unnoticed. Above a wall clock's granularity (16 ms), below RESPONSE_MS of keys/feed.ts (25 ms). */
const UNNOTICED_MS_MAX = 20;

/**
 * `clock` with a monotonic time that also counts the time a machine sleeps, for ages that must not outlive a bound.
 * CLOCK_MONOTONIC, which both runtimes read, stands still meanwhile, and so do timers. What the wall clock has gained
 * on it is added: setting that forward makes everything older, too; setting it back changes nothing.
 */
export function countingSleep(clock: Clock): Clock {
  let sleptMs = 0;
  let leadMs = leadOf(clock); // of the wall clock, when last read

  function addSleep(): void {
    // Read again: this thread may have lost the processor between the two readings.
    const nextLeadMs = Math.min(leadOf(clock), leadOf(clock));
    if (nextLeadMs - leadMs > UNNOTICED_MS_MAX) sleptMs += nextLeadMs - leadMs;
    leadMs = nextLeadMs;
  }

  return {
    nowMs: clock.nowMs,
    after: clock.after,
    monotonicMs() {
      const awakeMs = clock.monotonicMs();
      const nowLeadMs = clock.nowMs() - awakeMs;
      if (nowLeadMs - leadMs > UNNOTICED_MS_MAX) addSleep();
      else leadMs = nowLeadMs;
      return awakeMs + sleptMs;
    },
  };
}

function leadOf(clock: Clock): number {
  const awakeMs = clock.monotonicMs(); // read first: losing the processor in between can only add
  return clock.nowMs() - awakeMs;
}
