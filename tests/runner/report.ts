// Reads the report that `bun test` writes at its end: what failed, the slowest tests, and what is wrong with tests that
// passed.

import { existsSync, readFileSync } from 'node:fs';
import { type Failure, LINES_SHOWN_MAX } from './reader.ts';

const SLOWEST_SHOWN = 10;
/** With CI=true, what may be skipped: file, how the name begins, reason. */
const MAY_SKIP = 'tests/may-skip.json';
/** A longer name is a paragraph. */
const NAME_CHARS_MAX = 120;

const ENTITIES: Readonly<Record<string, string>> = { quot: '"', amp: '&', lt: '<', gt: '>', apos: "'" };

/** Matches a test of a report in JUnit's form: name, file, and what is inside. */
const TEST = /<testcase name="([^"]*)"[^>]*? file="([^"]*)"[^>]*?(?:\/>|>(.*?)<\/testcase>)/gs;

/** Matches a line of a diff that has neither + nor -, and none of a stack. */
const ON_BOTH_SIDES = /^ {2}(?! *at )/;

export interface SlowTest {
  readonly seconds: number;
  readonly what: string;
}

/** Returns the tests of a run that failed, and faults of others; keeps the slowest of all runs in `slowest`. */
export function readReport(path: string, slowest: SlowTest[]): { reported: Failure[]; faults: Failure[] } {
  if (!existsSync(path)) return { reported: [], faults: [] }; // nothing could be run, which has been said
  const reported: Failure[] = [];
  const faults: Failure[] = [];
  for (const [test, quoted = '', file = '', inside = ''] of readFileSync(path, 'utf8').matchAll(TEST)) {
    const name = unquoted(quoted);
    const why = /<failure[^>]*>(.*?)<\/failure>/s.exec(inside)?.[1];
    if (why !== undefined) {
      reported.push({ file, name, lines: shownOf(unquoted(why).trimEnd().split('\n')) });
    }
    const fault = faultOf(file, name, inside.includes('<skipped'));
    if (fault !== null) faults.push({ file, name, lines: [fault] });
    slowest.push({ seconds: Number(/ time="([\d.]+)"/.exec(test)?.[1] ?? 0), what: `${file}: ${name}` });
  }
  slowest.sort((a, b) => b.seconds - a.seconds).splice(SLOWEST_SHOWN);
  return { reported, faults };
}

/** Returns what is shown of a failure: of a long diff, as of a table's rows, first of all what differs. */
function shownOf(lines: readonly string[]): string[] {
  const kept = lines.length <= LINES_SHOWN_MAX ? lines : lines.filter((line) => !ON_BOTH_SIDES.test(line));
  return kept.slice(0, LINES_SHOWN_MAX);
}

/** Returns why a test that did not fail is a failure. */
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
