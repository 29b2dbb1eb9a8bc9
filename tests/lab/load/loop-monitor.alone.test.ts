// The monitor sees the pauses it is there for, and nothing else.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { LOOP_MONITOR } from '../../support/loop-pauses.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const PAUSE_MS = 60;

/**
 * Runs `code` from a timer the given number of times, and returns the longest pause that was seen. The times between
 * differ: a timer that always rings together with the monitor's own lets it see no call that blocks.
 */
async function longestPauseMs(code: string, times: number): Promise<number> {
  const script = `let times = 0; const later = () => setTimeout(() => {
    ${code}; if ((times += 1) === ${times}) process.exit(); later();
  }, 15 + times % 10); later();`;
  const child = Bun.spawn([process.execPath, '--preload', LOOP_MONITOR, '-e', script], { stderr: 'pipe' });
  return JSON.parse((await new Response(child.stderr).text()).trim()).longestPausesMs[0];
}

test('the loop monitor reports computing as a pause', async () => {
  const computedMs = '(({ user, system }) => (user + system) / 1000)(process.cpuUsage(from))';
  const busy = `const from = process.cpuUsage(); while (${computedMs} < ${PAUSE_MS});`;
  expect(await longestPauseMs(busy, 3)).toBeGreaterThan(PAUSE_MS / 2);
});

test('the loop monitor reports a blocking call as a pause', async () => {
  const blocked = `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${PAUSE_MS})`;
  expect(await longestPauseMs(blocked, 10)).toBeGreaterThan(PAUSE_MS / 2); // a busy machine hides some of them
});

test('the loop monitor does not report waiting for events', async () => {
  expect(await longestPauseMs('', 10)).toBeLessThan(PAUSE_MS / 2);
});
