// Loaded into a server before its own code: measures for how long its event loop is held up. Names the longest pauses,
// as a line of JSON on stderr, at its end, and on SIGUSR2, which also forgets them (starting up is slower than serving).

import { readFileSync, writeSync } from 'node:fs';

const TICK_MS = 2;
const NAMED = 5;
const THREAD = `/proc/self/task/${process.pid}`;

interface Sample {
  readonly atMs: number;
  /** Time the thread computed, and time it could have, while others had the processor. */
  readonly computedMs: number;
  readonly waitedMs: number;
  /** How often it went to sleep: for its next event, or in a call that blocks. */
  readonly sleeps: number;
}

let last = sample();
let longestMs: number[] = [];

function sample(): Sample {
  const [computedNs, waitedNs] = readFileSync(`${THREAD}/schedstat`, 'utf8').split(' ');
  const sleeps = /^voluntary_ctxt_switches:\s*(\d+)/m.exec(readFileSync(`${THREAD}/status`, 'utf8'))?.[1];
  return {
    atMs: performance.now(),
    computedMs: Number(computedNs) / 1e6,
    waitedMs: Number(waitedNs) / 1e6,
    sleeps: Number(sleeps),
  };
}

/** What the server did between two ticks beyond waiting for the second: neither others' computing nor a late alarm is its. */
function pauseMs(from: Sample, to: Sample): number {
  const heldUpMs = to.atMs - from.atMs - TICK_MS - (to.waitedMs - from.waitedMs);
  const onlySlept = to.sleeps - from.sleeps <= 1;
  return Math.round(onlySlept ? Math.min(heldUpMs, to.computedMs - from.computedMs) : heldUpMs);
}

function report(): void {
  const rssMb = Math.round(process.memoryUsage().rss / 1e6);
  writeSync(2, `\n${JSON.stringify({ longestPausesMs: longestMs, rssMb })}\n`);
}

setInterval(() => {
  const now = sample();
  longestMs = [...longestMs, pauseMs(last, now)].sort((a, b) => b - a).slice(0, NAMED);
  last = now;
}, TICK_MS).unref();

process.on('SIGUSR2', () => {
  report();
  longestMs = [];
});

process.on('exit', report);
