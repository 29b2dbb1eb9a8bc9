// `bun run test`: three files of tests at a time, in workers that keep the modules they have loaded.
// `bun run test:measured`: those that measure (*.alone.test.ts), one by one, each in a process of its own: beside other
// tests, or after them, memory is collected later and the processor is slower.
// With arguments, which are those of `bun test`, what they choose runs, one file after the other. Prints what fails, and
// at the end the failures once more, how to run them again, and one total.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Glob, spawn } from 'bun';

const ALONE = '*.alone.test.ts';
const TIMEOUT_MS = 60_000;
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

const args = process.argv.slice(2);
const measured = args[0] === '--measured';
const given = measured ? args.slice(1) : args;
const alone = () => [...new Glob(`tests/**/${ALONE}`).scanSync()].sort();
const usual = measured
  ? alone().map((file) => [file])
  : [['--parallel=3', '--no-isolate', `--path-ignore-patterns=**/${ALONE}`]];
const runs = given.length > 0 ? [given] : usual;

const folder = mkdtempSync(join(tmpdir(), 'tests-'));
const report = join(folder, 'report.xml');
const total: Total = { pass: 0, fail: 0, skip: 0 };
const failures: Failure[] = [];
let stopped = false;
let failed = false;

try {
  for (const run of runs) {
    rmSync(report, { force: true });
    const shown: Failure[] = [];
    failed = !(await runTests(run, shown)) || failed;
    const [reported, long] = readReport(report);
    // With several files at a time, what bun prints of a failure may come after its test's line, or among another's.
    failures.push(
      ...(reported.length > 0 ? [...shown.filter(({ name }) => name === ''), ...reported] : shown),
      ...long,
    );
    if (stopped) break;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
summarize();
process.exit(failed || stopped || failures.length > 0 ? 1 : 0);

/** True if `bun test` says that all passed. */
async function runTests(chosen: readonly string[], shown: Failure[]): Promise<boolean> {
  const command = ['test', '--timeout', String(TIMEOUT_MS), '--only-failures', '--reporter=junit'];
  const tests = spawn([process.execPath, '--no-env-file', ...command, `--reporter-outfile=${report}`, ...chosen], {
    stdio: ['inherit', 'inherit', 'pipe'],
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

/** The tests of a run that failed, and those whose names are too long. */
function readReport(path: string): [failed: Failure[], long: Failure[]] {
  let xml: string;
  try {
    xml = readFileSync(path, 'utf8');
  } catch {
    return [[], []]; // nothing could be run, which has been said
  }
  const failed: Failure[] = [];
  const long: Failure[] = [];
  for (const [, quoted = '', file = '', inside = ''] of xml.matchAll(TEST)) {
    const name = unquoted(quoted);
    const why = /<failure[^>]*>(.*?)<\/failure>/s.exec(inside)?.[1];
    if (why !== undefined)
      failed.push({ file, name, lines: unquoted(why).trimEnd().split('\n').slice(0, LINES_SHOWN_MAX) });
    if ([...name].length <= NAME_CHARS_MAX) continue;
    long.push({ file, name, lines: [`its name has more than ${NAME_CHARS_MAX} characters`] });
  }
  return [failed, long];
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
  const failedInAll = Math.max(total.fail, failures.length, failed ? 1 : 0);
  process.stdout.write(`${total.pass} passed, ${failedInAll} failed, ${total.skip} skipped\n`);
}
