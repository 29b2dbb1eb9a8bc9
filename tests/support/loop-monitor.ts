// Loaded into a server before its own code: measures for how long its event loop is held up. Names the longest pauses,
// as a line of JSON on stderr, at its end, and on SIGUSR2, which also forgets them (starting up is slower than serving).
//
// Pauses that come from a machine with too few processors are not the server's fault, and are taken off as far as the
// system tells of them. Seen, each for 50 ms and more at a time:
// - the thread was ready to run while others had the processor (the system's count of it misses a part when threads
//   change processors, so of a tick with much of it only the time spent computing counts);
// - the thread slept until its next event, and was woken late;
// - the thread spun for a lock of the runtime's allocator, whose own thread had lost its processor while holding it.

import { readdirSync, readFileSync, writeSync } from 'node:fs';

const TICK_MS = 2;
const NAMED = 5;
/** A tick in which the thread waited longer than this for a processor is put down to the machine. */
const WAITED_MS_MAX = 2;
const THREADS = '/proc/self/task';
const MAIN = `${THREADS}/${process.pid}`;
const ALLOCATOR = threadNamed('mi-scavenger');

interface Sample {
  readonly atMs: number;
  readonly computedMs: number;
  /** Ready to run, without a processor: this thread, and the allocator's. */
  readonly waitedMs: number;
  /** How often it went to sleep: for its next event, or in a call that blocks. */
  readonly sleeps: number;
}

let last = sample();
let longestMs: number[] = [];

function threadNamed(name: string): string | undefined {
  const threads = readdirSync(THREADS).map((thread) => `${THREADS}/${thread}`);
  return threads.find((thread) => readFileSync(`${thread}/comm`, 'utf8').trim() === name);
}

function timesOf(thread: string): { computedMs: number; waitedMs: number } {
  const [computedNs, waitedNs] = readFileSync(`${thread}/schedstat`, 'utf8').split(' ');
  return { computedMs: Number(computedNs) / 1e6, waitedMs: Number(waitedNs) / 1e6 };
}

function sample(): Sample {
  const { computedMs, waitedMs } = timesOf(MAIN);
  const sleeps = /^voluntary_ctxt_switches:\s*(\d+)/m.exec(readFileSync(`${MAIN}/status`, 'utf8'))?.[1];
  return {
    atMs: performance.now(),
    computedMs,
    waitedMs: waitedMs + (ALLOCATOR === undefined ? 0 : timesOf(ALLOCATOR).waitedMs),
    sleeps: Number(sleeps),
  };
}

/** For how long the server itself did anything but wait for the second tick. */
function pauseMs(from: Sample, to: Sample): number {
  const waitedMs = to.waitedMs - from.waitedMs;
  const heldUpMs = to.atMs - from.atMs - TICK_MS - waitedMs;
  const computedMs = to.computedMs - from.computedMs;
  const blocked = to.sleeps - from.sleeps > 1 && waitedMs <= WAITED_MS_MAX; // or may have been: in a call
  return Math.round(blocked ? heldUpMs : Math.min(heldUpMs, computedMs));
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
