// `bun run test`: whether the program works on this machine. `--all` (bun run test:all): everything. `--rest`: what only that
// runs. `--measured`: the last part of it. `--fast`: of the usual tests those outside STARTS_PROGRAMS.
// With other arguments, which are those of `bun test`, what they choose runs, one file after the other. Prints what fails,
// and at the end the failures once more, how to run them again, the ten slowest, and one total.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Glob, spawn } from 'bun';

/** What measures: beside other tests, or after them, memory is collected later and the processor is slower. */
const ALONE = /\.alone\.test\.ts$/;
/** Takes many minutes: rounds by the hundred, waits that cannot be shortened. */
const LONG = /\.long\.ts$/;
/** What `bun run test` leaves out, beside these. */
const SLOW = /^tests\/lab\/|\.slow\.test\.ts$/;
/** A file that has more rows for `--all` says so by this import. */
const HAS_MORE = /support\/everything\.ts'/;
/** Folders whose tests mostly start servers, browsers and other programs. */
const STARTS_PROGRAMS = /^tests\/(browser|commands|database|package|process|recipes|store)\//;
/** The tests of what a remote database, or a replica of it, could do differently. */
const IN_MODES = /^tests\/(app\.test|keys\/|mcp\/|tools\/|uses\/)/;
const TIMEOUT_MS = 60_000;
const LONG_MS_MAX = 1_800_000;
const SLOWEST_SHOWN = 10;
/** With CI=true, what may be skipped: file, how the name begins, reason. */
const MAY_SKIP = 'tests/may-skip.json';
/** Of each failure, what is shown again at the end. */
const LINES_SHOWN_MAX = 40;
/** A longer name is a paragraph. */
const NAME_CHARS_MAX = 120;

const ENTITIES: Readonly<Record<string, string>> = {
  quot: '"',
  amp: '&',
  lt: '<',
  gt: '>',
  apos: "'",
};

/** In a report of JUnit's form: name, file, and what is inside. */
const TEST = /<testcase name="([^"]*)"[^>]*? file="([^"]*)"[^>]*?(?:\/>|>(.*?)<\/testcase>)/gs;

/** What dependencies say of themselves: oidc-provider, and the SDK of the client that keeps no issuer. */
const OF_DEPENDENCIES = /^\(node:\d+\) \[DEP0115\]|^\(Use `bun.* --trace-warnings|^\[mcp-sdk\] SEP-2352/;

const TEST_FILE = /^tests\/[^:'")]+\.test\.ts/;

interface Failure {
  readonly file: string;
  /** Without the names of what it is in; empty: the file could not be run. */
  readonly name: string;
  readonly lines: readonly string[];
}

interface Total {
  pass: number;
  fail: number;
  skip: number;
}

interface Run {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const filesOf = (pattern: string) => [...new Glob(pattern).scanSync()].sort();
const tests = filesOf('tests/**/*.test.ts').filter((file) => !ALONE.test(file));
const usualTests = tests.filter((file) => !SLOW.test(file));
const more = tests.filter((file) => SLOW.test(file) || HAS_MORE.test(readFileSync(file, 'utf8')));

/** Files beside each other, in workers that keep the modules they have loaded. */
const together = (files: readonly string[], workers: number, env: Run['env'] = {}): Run[] =>
  files.length === 0
    ? []
    : [{ args: [`--parallel=${workers}`, '--no-isolate', ...files.map((file) => `./${file}`)], env }];

/** Each in a process of its own. */
const alone = (files: readonly string[]): Run[] => files.map((file) => ({ args: [`./${file}`] }));

const usual = together(usualTests, 3, { TEST_ROWS: 'usual' });
const fast = together(
  usualTests.filter((file) => !STARTS_PROGRAMS.test(file)),
  2,
  { TEST_ROWS: 'usual' },
);
const measured = alone(filesOf('tests/**/*.alone.test.ts'));
const rest = [
  ...together(more, 3),
  ...['remote', 'replica'].flatMap((TEST_STORE) =>
    together(
      usualTests.filter((file) => IN_MODES.test(file)),
      2,
      { TEST_STORE },
    ),
  ),
];
const long = alone(filesOf('tests/**/*.long.ts').filter((file) => LONG.test(file))).map(({ args }) => ({
  args: ['--timeout', String(LONG_MS_MAX), ...args],
}));
const LAYERS: Readonly<Record<string, readonly Run[]>> = {
  '--fast': fast,
  '--rest': rest,
  '--measured': measured,
  '--all': [...usual, ...rest, ...measured, ...long],
};

const given = process.argv.slice(2);
const runs = given.length === 0 ? usual : (LAYERS[given[0] ?? ''] ?? [{ args: given }]);

const folder = mkdtempSync(join(tmpdir(), 'tests-'));
const report = join(folder, 'report.xml');
const total: Total = { pass: 0, fail: 0, skip: 0 };
const slowest: { readonly seconds: number; readonly what: string }[] = [];
const failures: Failure[] = [];
let stopped = false;
let failed = false;

try {
  for (const run of runs) {
    rmSync(report, { force: true });
    const shown: Failure[] = [];
    failed = !(await runTests(run, shown)) || failed;
    const { reported, faults } = readReport(report);
    // With several files at a time, what bun prints of a failure may come after its test's line, or among another's.
    failures.push(
      ...(reported.length > 0 ? [...shown.filter(({ name }) => name === ''), ...reported] : shown),
      ...faults,
    );
    if (stopped) break;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
summarize();
process.exit(failed || stopped || failures.length > 0 ? 1 : 0);

/** True if `bun test` says that all passed. */
async function runTests({ args, env }: Run, shown: Failure[]): Promise<boolean> {
  const timeout = args.includes('--timeout') ? [] : ['--timeout', String(TIMEOUT_MS)];
  const command = ['test', ...timeout, '--only-failures', '--reporter=junit', `--reporter-outfile=${report}`, ...args];
  const tests = spawn([process.execPath, '--no-env-file', ...command], {
    stdio: ['inherit', 'inherit', 'pipe'],
    env: { ...process.env, TMPDIR: folder, ...env }, // what is left there goes with it
  });
  const stop = (signal: NodeJS.Signals) => {
    stopped = true;
    tests.kill(signal);
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  const reader = createReader(shown);
  for await (const line of linesOf(tests.stderr)) reader(line);
  const passed = (await tests.exited) === 0;
  process.off('SIGINT', stop).off('SIGTERM', stop);
  return passed;
}

/** Reads what `bun test` prints: shows what fails, adds it to `shown`, and counts. */
function createReader(shown: Failure[]): (line: string) => void {
  let file = '';
  let lines: string[] = [];
  let rules = 0;
  return (line) => {
    const [, count, kind] = /^ *(\d+) (pass|fail|skip)$/.exec(line) ?? [];
    if (kind !== undefined) {
      total[kind as keyof Total] += Number(count);
      return;
    }
    const header = /^(\S+\.ts):$/.exec(line);
    if (header?.[1] !== undefined) {
      file = header[1];
      lines = [];
      return;
    }
    if (
      /^( *\d+ (errors?|expect\(\) calls|snapshots.*)|Ran \d+ tests? .*|\(skip\) .*|\d+ tests (skipped|failed):)?$/.test(
        line,
      )
    )
      return;
    if (OF_DEPENDENCIES.test(line)) return;
    process.stderr.write(`${lines.length === 0 ? `\n${file}\n` : ''}${line}\n`);
    lines.push(line);
    const name = /^\(fail\) (.*?)(?: \[[\d.]+ms\])?$/.exec(line)?.[1];
    if (line === '# Unhandled error between tests') rules = 0;
    if (/^-{10,}$/.test(line)) rules += 1;
    const isBroken = rules === 2; // the error stands between two rules
    if (name === undefined && !isBroken) return;
    rules = 0;
    const where = name === undefined ? (testFileIn(lines) ?? file) : file;
    shown.push({ file: where, name: name?.split(' > ').at(-1) ?? '', lines: lines.slice(-LINES_SHOWN_MAX) });
    lines = [];
  };
}

/** The file that an error names. With several at a time, it may be printed under the header of another. */
function testFileIn(lines: readonly string[]): string | undefined {
  const paths = lines.flatMap((line) => line.split(`${process.cwd()}/`).slice(1));
  return paths.map((path) => TEST_FILE.exec(path)?.[0]).find((path) => path !== undefined);
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = parts.pop() ?? '';
    yield* parts;
  }
  if (rest !== '') yield rest;
}

/** The tests of a run that failed, and what is wrong with others; notes the slowest. */
function readReport(path: string): { reported: Failure[]; faults: Failure[] } {
  let xml: string;
  try {
    xml = readFileSync(path, 'utf8');
  } catch {
    return { reported: [], faults: [] }; // nothing could be run, which has been said
  }
  const reported: Failure[] = [];
  const faults: Failure[] = [];
  for (const [test, quoted = '', file = '', inside = ''] of xml.matchAll(TEST)) {
    const name = unquoted(quoted);
    const why = /<failure[^>]*>(.*?)<\/failure>/s.exec(inside)?.[1];
    if (why !== undefined)
      reported.push({ file, name, lines: unquoted(why).trimEnd().split('\n').slice(0, LINES_SHOWN_MAX) });
    const fault = faultOf(file, name, inside.includes('<skipped'));
    if (fault !== null) faults.push({ file, name, lines: [fault] });
    slowest.push({ seconds: Number(/ time="([\d.]+)"/.exec(test)?.[1] ?? 0), what: `${file}: ${name}` });
  }
  slowest.sort((a, b) => b.seconds - a.seconds).splice(SLOWEST_SHOWN);
  return { reported, faults };
}

/** Why a test that did not fail is a failure. */
function faultOf(file: string, name: string, isSkipped: boolean): string | null {
  if ([...name].length > NAME_CHARS_MAX) return `its name has more than ${NAME_CHARS_MAX} characters`;
  if (!isSkipped || process.env.CI !== 'true') return null;
  const isListed = maySkip().some((listed) => file === listed.file && name.startsWith(listed.name));
  return isListed ? null : `it was skipped, and ${MAY_SKIP} does not say why it may be`;
}

function maySkip(): readonly { readonly file: string; readonly name: string }[] {
  return existsSync(MAY_SKIP) ? JSON.parse(readFileSync(MAY_SKIP, 'utf8')) : [];
}

function unquoted(text: string): string {
  return text.replace(/&(?:(quot|amp|lt|gt|apos)|#(\d+));/g, (_, name: string | undefined, code: string | undefined) =>
    name === undefined ? String.fromCodePoint(Number(code)) : (ENTITIES[name] ?? ''),
  );
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
  const failedInAll = Math.max(total.fail, failures.length, failed ? 1 : 0);
  process.stdout.write(`${total.pass} passed, ${failedInAll} failed, ${total.skip} skipped\n`);
}
