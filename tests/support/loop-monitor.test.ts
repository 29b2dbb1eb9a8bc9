// Whether the monitor sees what it is there for, and nothing else.

import { expect, test } from 'bun:test';
import { join } from 'node:path';

const MONITOR = join(import.meta.dir, 'loop-monitor.ts');
const PAUSE_MS = 60;
/** So often that a busy machine can't hide all of them. */
const TIMES = 10;

/** Runs `code` again and again from a timer, and returns the longest pause that was seen. */
async function longestPauseMs(code: string): Promise<number> {
  const script = `let times = 0; setInterval(() => { ${code}; if ((times += 1) === ${TIMES}) process.exit(); }, 20);`;
  const child = Bun.spawn([process.execPath, '--preload', MONITOR, '-e', script], { stderr: 'pipe' });
  return JSON.parse((await new Response(child.stderr).text()).trim()).longestPausesMs[0];
}

test('computing is a pause', async () => {
  const busy = `const untilMs = performance.now() + ${PAUSE_MS}; while (performance.now() < untilMs);`;
  expect(await longestPauseMs(busy)).toBeGreaterThan(PAUSE_MS / 2);
});

test('a call that blocks is a pause', async () => {
  const blocked = `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${PAUSE_MS})`;
  expect(await longestPauseMs(blocked)).toBeGreaterThan(PAUSE_MS / 2);
});

test('waiting for events is none', async () => {
  expect(await longestPauseMs('')).toBeLessThan(PAUSE_MS / 2);
});
