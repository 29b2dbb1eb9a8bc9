// Reads what `bun test` prints while it runs: counts tests and files, shows what fails, and collects it.

export interface Failure {
  readonly file: string;
  /** The test's own name; empty: the file could not be run. */
  readonly name: string;
  readonly lines: readonly string[];
}

export interface Counts {
  pass: number;
  fail: number;
  skip: number;
}

/** Receives what has happened so far. */
export interface Observer {
  /** Runs when the first result of a file arrives. With several workers a file's results arrive together, at its end. */
  onFile(file: string): void;
  onTest(file: string, name: string, seconds: number): void;
  /** Runs with each line that is to be shown at once. */
  onLine(line: string): void;
}

/** A failure is shown again at the end, with at most so many lines. */
export const LINES_SHOWN_MAX = 40;

/** Names may hold any character, line separators of Unicode too. */
const RESULT = /^\((pass|fail|skip|todo)\) (.*?)(?: \[([\d.]+)(ms|s|m)\])?$/s;
const SECONDS_PER = { ms: 0.001, s: 1, m: 60 } as const;
const HEADER = /^(\S+\.ts):$/;
const TEST_FILE = /^tests\/[^:'")]+\.test\.ts/;
const CHATTER =
  /^( *\d+ (pass|fail|skip|errors?|expect\(\) calls|snapshots.*)|Ran \d+ tests? .*|bun test v.*|\d+ tests (skipped|failed):)?$/;
/** What dependencies say of themselves: oidc-provider, and the SDK of the client that keeps no issuer. */
const DEPENDENCY_CHATTER = /^\(node:\d+\) \[DEP0115\]|^\(Use `bun.* --trace-warnings|^\[mcp-sdk\] SEP-2352/;
const RULE = /^-{10,}$/;

/** Returns a function that takes one line after the other; `counts` and `failures` are added to. */
export function createReader(counts: Counts, failures: Failure[], observer: Observer): (line: string) => void {
  let file = '';
  let lines: string[] = [];
  let rules = 0;
  let atEnd = false; // Bun repeats failures and skipped tests after the last file

  function readResult([, result, name = '', time, unit]: RegExpExecArray): void {
    if (atEnd) return;
    const seconds = Number(time ?? 0) * SECONDS_PER[(unit ?? 'ms') as keyof typeof SECONDS_PER];
    if (result === 'fail') {
      counts.fail += 1;
      observer.onLine(`(fail) ${name}`);
      failures.push({ file, name: name.split(' > ').at(-1) ?? '', lines: lines.slice(-LINES_SHOWN_MAX) });
    } else {
      counts[result === 'pass' ? 'pass' : 'skip'] += 1;
    }
    observer.onTest(file, name, seconds);
    lines = [];
  }

  /** An error that is no test's stands between two rules. */
  function readError(line: string): void {
    if (line === '# Unhandled error between tests') rules = 0;
    if (!RULE.test(line)) return;
    rules += 1;
    if (rules !== 2) return;
    failures.push({ file: testFileIn(lines) ?? file, name: '', lines: lines.slice(-LINES_SHOWN_MAX) });
    rules = 0;
    lines = [];
  }

  return (line) => {
    if (/^\d+ tests (skipped|failed):$/.test(line)) atEnd = true;
    const header = HEADER.exec(line)?.[1];
    if (header !== undefined) {
      if (header !== file) observer.onFile(header);
      file = header;
      lines = [];
      return;
    }
    const result = RESULT.exec(line);
    if (result !== null) return readResult(result);
    if (atEnd || CHATTER.test(line) || DEPENDENCY_CHATTER.test(line)) return;
    observer.onLine(lines.length === 0 ? `\n${file}\n${line}` : line);
    lines.push(line);
    readError(line);
  };
}

/** Returns the file that an error names: with several workers it may be printed under the header of another. */
function testFileIn(lines: readonly string[]): string | undefined {
  const paths = lines.flatMap((line) => line.split(`${process.cwd()}/`).slice(1));
  return paths.map((path) => TEST_FILE.exec(path)?.[0]).find((path) => path !== undefined);
}

/** Yields the lines of a stream as they arrive. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = parts.pop() ?? '';
    yield* parts;
  }
  if (rest !== '') yield rest;
}
