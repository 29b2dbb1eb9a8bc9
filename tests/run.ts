// `bun run test`: whether the program works on this machine. `--all` (bun run test:all): everything. `--rest`: what only that
// runs; `--slow`: of this what takes long on a file. `--measured`: the last part of it. `--fast`: of the usual tests those
// outside STARTS_PROGRAMS.
// With other arguments, which are those of `bun test`, what they choose runs, one file after the other. Prints what fails,
// and at the end the failures once more, how to run them again, the ten slowest, and one total.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Glob, spawn } from 'bun';
import { kill, processesOf, removeFolders } from './runner/leftovers.ts';
import { createProgress } from './runner/progress.ts';
import { type Counts, createReader, type Failure, linesOf } from './runner/reader.ts';
import { readReport, type SlowTest } from './runner/report.ts';

/** What measures: beside other tests, or after them, memory is collected later and the processor is slower. */
const ALONE = /\.alone\.test\.ts$/;
/** Takes many minutes: rounds by the hundred, waits that cannot be shortened. */
const LONG = /\.long\.ts$/;
/** What `bun run test` leaves out, beside these. */
const SLOW = /^tests\/(lab|store\/remote|doors\/copies\/replica)\/|\.slow\.test\.ts$/;
/** A file that has more rows for `--all` says so by this import. */
const HAS_MORE = /support\/everything\.ts'/;
/** Folders whose tests mostly start servers, browsers and other programs. */
const STARTS_PROGRAMS = /^tests\/(browser|commands|package|process|recipes|store)\//;
/** Files that take ten seconds and more, much of which they wait. */
const LONGEST = [
  /^tests\/browser\/page\/(operators|sign-in|use)\./,
  /^tests\/doors\/(copies\/backup|removed|signin\/places|services\/(leased|verifier-(away|faults|in-python)))/,
  /^tests\/(package\/package|process\/stop|recipes\/(device|verify)|uses\/last-used\.slow)\./,
];
/** The tests of what a remote database, or a replica of it, could do differently. */
const IN_MODES = /^tests\/(app\.test|keys\/|mcp\/|doors\/children\/exchange\.test|tools\/|uses\/)/;
/** Tests wait for sockets, disks and other programs half of their time, or more: more than there are cores. */
const WORKERS = 4;
const FAST_WORKERS = 3;
/** A machine at load 15 takes ten times as long, and a test of seconds must not fail there. */
const TIMEOUT_MS = 180_000;
const LONG_MS_MAX = 1_800_000;
/** Most code of a test runs once: it is not worth optimizing, nor is memory worth giving back. */
const SHORT_LIVED = { BUN_JSC_useDFGJIT: '0', BUN_GC_TIMER_DISABLE: '1', MIMALLOC_PURGE_DELAY: '-1' };

interface Run {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const folder = mkdtempSync(join(tmpdir(), 'tests-'));
const report = join(folder, 'report.xml');
const filesOf = (pattern: string) => [...new Glob(pattern).scanSync()].sort();
const tests = filesOf('tests/**/*.test.ts').filter((file) => !ALONE.test(file));
const usualTests = tests.filter((file) => !SLOW.test(file));
const slowTests = tests.filter((file) => SLOW.test(file));
const more = tests.filter((file) => HAS_MORE.test(readFileSync(file, 'utf8')));

const roughMsOf = (file: string) => {
  if (LONGEST.some((files) => files.test(file))) return 20_000;
  return STARTS_PROGRAMS.test(file) ? 4000 : 1000;
};
/** With what takes longest `bun test` begins, then with what starts programs, and waits: so that no core idles at the end. */
const timings = join(folder, 'timings.json');
const roughMs = tests.map((file) => [file, roughMsOf(file)]);
writeFileSync(timings, JSON.stringify({ version: 1, files: Object.fromEntries(roughMs) }));

/** Files beside each other, in workers that keep the modules they have loaded. */
const together = (files: readonly string[], workers: number, env: Run['env'] = {}): Run[] =>
  files.length === 0
    ? []
    : [
        {
          args: [`--parallel=${workers}`, '--no-isolate', `--timings=${timings}`, ...files.map((file) => `./${file}`)],
          env: { ...SHORT_LIVED, ...env },
        },
      ];

/** Each in a process of its own. */
const alone = (files: readonly string[]): Run[] => files.map((file) => ({ args: [`./${file}`] }));

const usual = together(usualTests, WORKERS, { TEST_ROWS: 'usual' });
const fast = together(
  usualTests.filter((file) => !STARTS_PROGRAMS.test(file)),
  FAST_WORKERS,
  { TEST_ROWS: 'usual' },
);
const measured = alone(filesOf('tests/**/*.alone.test.ts'));
const slow = together(slowTests, WORKERS, { TEST_ROWS: 'usual' });
const rest = [
  ...slow,
  ...together(more, WORKERS, { TEST_ROWS: 'more' }),
  ...['remote', 'replica'].flatMap((TEST_STORE) =>
    together(
      usualTests.filter((file) => IN_MODES.test(file)),
      WORKERS,
      { TEST_STORE, TEST_ROWS: 'usual' },
    ),
  ),
];
const long = alone(filesOf('tests/**/*.long.ts').filter((file) => LONG.test(file))).map(({ args }) => ({
  args: ['--timeout', String(LONG_MS_MAX), ...args],
}));
const LAYERS: Readonly<Record<string, readonly Run[]>> = {
  '--fast': fast,
  '--slow': slow,
  '--rest': rest,
  '--measured': measured,
  '--all': [...usual, ...rest, ...measured, ...long],
};

const given = process.argv.slice(2);
const runs = given.length === 0 ? usual : (LAYERS[given[0] ?? ''] ?? [{ args: given }]);

const counts: Counts = { pass: 0, fail: 0, skip: 0 };
const fileCount = runs.flatMap(({ args }) => args.filter((arg) => arg.startsWith('./'))).length;
const progress = createProgress(counts, given[0] === undefined || given[0] in LAYERS ? fileCount : null);
const slowest: SlowTest[] = [];
const failures: Failure[] = [];
let stoppedBy: NodeJS.Signals | null = null;
let failed = false;

try {
  for (const run of runs) {
    rmSync(report, { force: true });
    const shown: Failure[] = [];
    failed = !(await runTests(run, shown)) || failed;
    const { reported, faults } = readReport(report, slowest);
    // With several files at a time, what bun prints of a failure may come after its test's line, or among another's.
    failures.push(
      ...(reported.length > 0 ? [...shown.filter(({ name }) => name === ''), ...reported] : shown),
      ...faults,
    );
    if (stoppedBy !== null) break;
  }
} finally {
  progress.end();
  summarize();
  removeFolders(folder);
}
process.exit(failed || stoppedBy !== null || failures.length > 0 ? 1 : 0);

/** Returns whether `bun test` says that all passed. */
async function runTests({ args, env }: Run, shown: Failure[]): Promise<boolean> {
  const timeout = args.includes('--timeout') ? [] : ['--timeout', String(TIMEOUT_MS)];
  const command = ['test', ...timeout, '--reporter=junit', `--reporter-outfile=${report}`, ...args];
  const tests = spawn([process.execPath, '--no-env-file', ...command], {
    stdio: ['inherit', 'inherit', 'pipe'],
    env: { ...process.env, TMPDIR: folder, ...env }, // what is left there goes with it
  });
  const stop = (signal: NodeJS.Signals) => {
    stoppedBy ??= signal;
    kill(processesOf(tests.pid, folder));
    tests.kill('SIGKILL');
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  const reader = createReader(counts, shown, progress);
  for await (const line of linesOf(tests.stderr)) reader(line);
  const passed = (await tests.exited) === 0;
  process.off('SIGINT', stop).off('SIGTERM', stop);
  kill(processesOf(tests.pid, folder));
  return passed;
}

function summarize(): void {
  for (const { file, name, lines } of failures) {
    const pattern = name.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&').replaceAll("'", '.');
    const again = `bun test ./${file}${name === '' ? '' : ` -t '${pattern}'`}`;
    const what = name === '' ? '' : `(fail) ${name}\n`;
    process.stderr.write(`\n== ${file}\n${what}${lines.join('\n')}\nonce more: ${again}\n`);
  }
  process.stderr.write(`\nthe slowest:\n`);
  for (const { seconds, what } of slowest) process.stderr.write(`${seconds.toFixed(1).padStart(6)} s  ${what}\n`);
  if (stoppedBy !== null) process.stderr.write(`\ninterrupted (${stoppedBy}): what had passed by then\n`);
  const failedInAll = Math.max(counts.fail, failures.length, failed && stoppedBy === null ? 1 : 0);
  process.stdout.write(`${counts.pass} passed, ${failedInAll} failed, ${counts.skip} skipped\n`);
}
