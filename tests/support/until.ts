// Waits for what another process does in its own time.

const LOOK_EVERY_MS = 10;

/** Milliseconds until `done` says so. The test's own timeout ends a wait that never does. */
export async function until(done: () => boolean | Promise<boolean>): Promise<number> {
  const startedAtMs = performance.now();
  while (!(await done())) await Bun.sleep(LOOK_EVERY_MS);
  return performance.now() - startedAtMs;
}
