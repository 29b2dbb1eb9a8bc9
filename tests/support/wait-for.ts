// Waits for what another process does in its own time, and for what an app does on its timers meanwhile.

import type { TestClock } from './clock.ts';

const LOOK_EVERY_MS = 10;

/** Milliseconds until `done` says so. The test's own timeout ends a wait that never does. */
export async function waitFor(done: () => boolean | Promise<boolean>): Promise<number> {
  const startedAtMs = performance.now();
  while (!(await done())) await Bun.sleep(LOOK_EVERY_MS);
  return performance.now() - startedAtMs;
}

/** The same; a look that begins `withinMs` from now, or later, must find it done. */
export async function waitForWithin(withinMs: number, done: () => boolean | Promise<boolean>): Promise<void> {
  const startedAtMs = performance.now();
  for (;;) {
    const lookedAtMs = performance.now() - startedAtMs;
    if (await done()) return;
    if (lookedAtMs >= withinMs) throw new Error(`not done ${withinMs} ms later`);
    await Bun.sleep(LOOK_EVERY_MS);
  }
}

/** The same as `waitFor`, while `clock` moves by `stepMs` before each look. */
export const advanceUntil = (
  clock: TestClock,
  done: () => boolean | Promise<boolean>,
  stepMs = LOOK_EVERY_MS,
): Promise<number> =>
  waitFor(() => {
    clock.advance(stepMs);
    return done();
  });
