// Loaded into a server before its own code: measures for how long its event loop is held up, and names the
// longest pauses at its end.
// SIGUSR2 forgets what was seen so far (starting up is slower than serving).

import { readFileSync, writeSync } from 'node:fs';

const TICK_MS = 5;
const NAMED = 5;
let last = performance.now();
let waited = waitedForCpuMs();
let longestMs: number[] = [];

/** Time this thread was ready to run while others had the processor: no fault of the server's. */
function waitedForCpuMs(): number {
  return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
}

setInterval(() => {
  const nowMs = performance.now();
  const waitedMs = waitedForCpuMs();
  const pauseMs = Math.round(nowMs - last - TICK_MS - (waitedMs - waited));
  if (longestMs.length < NAMED || pauseMs > (longestMs.at(-1) ?? 0))
    longestMs = [...longestMs, pauseMs].sort((a, b) => b - a).slice(0, NAMED);
  waited = waitedMs;
  last = nowMs;
}, TICK_MS).unref();

process.on('SIGUSR2', () => {
  longestMs = [];
});

process.on('exit', () => {
  const rssMb = Math.round(process.memoryUsage().rss / 1e6);
  writeSync(2, `\n${JSON.stringify({ longestPausesMs: longestMs, rssMb })}\n`);
});
