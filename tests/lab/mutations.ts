// `bun tests/lab/mutations.ts [text…]`: changes one line of the source at a time, in a copy, and runs the tests that should
// notice; with texts, only those whose names hold one of them. Says which test was the first to notice. SURVIVED: none
// did. OUTDATED: the line is not there exactly once, so the source has moved on. BROKEN: the tests fail without the change
// too, or with it none of them begins.

import { cpSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { folderWith } from '../support/folder.ts';
import { MUTATIONS, type Mutation } from './mutations/list.ts';

const ROOT = join(import.meta.dir, '../..');
const COPIED = ['src', 'db', 'tests', 'package.json', 'bunfig.toml', 'tsconfig.json', 'README.md', '.github'];
const TEST_MS_MAX = 120_000;

const wanted = process.argv.slice(2);
const chosen = MUTATIONS.filter(({ name }) => wanted.length === 0 || wanted.some((text) => name.includes(text)));
const copy = folderWith({});
for (const path of COPIED) cpSync(join(ROOT, path), join(copy, path), { recursive: true });
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));

/** The first of these tests that fails as the copy is now; null: they pass. Empty: none began. */
function failingOf(tests: readonly string[]): string | null {
  const { success, stderr } = Bun.spawnSync(
    [process.execPath, '--no-env-file', 'test', '--bail', '--timeout', String(TEST_MS_MAX), ...tests],
    { cwd: copy, stdout: 'ignore', stderr: 'pipe', env: { ...process.env, NO_COLOR: '1' } },
  );
  return success ? null : (/^\(fail\) (.*)/m.exec(stderr.toString())?.[1] ?? '');
}

const passed = new Map<string, boolean>();
/** Whether they pass without any change: else they would notice nothing. */
function passUnchanged(tests: readonly string[]): boolean {
  const name = tests.join(' ');
  const known = passed.get(name) ?? failingOf(tests) === null;
  passed.set(name, known);
  return known;
}

const outcomes = { noticed: 0, SURVIVED: 0, OUTDATED: 0, BROKEN: 0 };
for (const mutation of chosen) {
  const [outcome, noticedBy] = outcomeOf(mutation);
  outcomes[outcome] += 1;
  console.log(outcome.padEnd(8), mutation.name);
  if (noticedBy) console.log(' '.repeat(8), noticedBy);
}
console.log(outcomes);
process.exit(outcomes.noticed === chosen.length ? 0 : 1);

function outcomeOf({ file, from, to, tests }: Mutation): [outcome: keyof typeof outcomes, noticedBy?: string] {
  const source = existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), 'utf8') : '';
  if (source.split(from).length !== 2) return ['OUTDATED'];
  if (!passUnchanged(tests)) return ['BROKEN'];
  writeFileSync(
    join(copy, file),
    source.replace(from, () => to),
  );
  const failing = failingOf(tests);
  writeFileSync(join(copy, file), source);
  if (failing === null) return ['SURVIVED'];
  return failing === '' ? ['BROKEN'] : ['noticed', failing];
}
