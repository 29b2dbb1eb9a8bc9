// Waits for what another process does in its own time, and for what an app does on its timers meanwhile.

import { expect } from 'bun:test';
import type { TestClock } from './clock.ts';

const LOOK_EVERY_MS = 10;
/** A key at the bound is asked about as often as a busy client would. */
const ASK_EVERY_MS = 2;

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

/**
 * Asks until it is refused, or has the `status` that is expected since a change; what it had last before must have been
 * asked for within `boundMs` of `sinceMs`. A server that could not look in time for the change says 503, which is neither.
 */
export async function refusedWithin(
  boundMs: number,
  ask: () => Promise<number>,
  { status = 401, sinceMs = performance.now() } = {},
): Promise<void> {
  let acceptedMs = 0;
  for (;;) {
    const askedMs = performance.now() - sinceMs;
    const got = await ask();
    if (got === status) break;
    if (got !== 503) acceptedMs = askedMs;
    await Bun.sleep(ASK_EVERY_MS);
  }
  expect(acceptedMs).toBeLessThan(boundMs);
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
