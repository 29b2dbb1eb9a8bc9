// `bun tests/lab/mutations.ts [--sample 50] [--seed 1] FILE…`: makes one careless change of the source at a time
// (mutations/mutants.ts), in a copy, and runs the tests of the file's room, which should notice. Without files those whose
// decisions matter most. Says which test was the first to notice. SURVIVED: none did, which is a gap, or a change that
// means nothing. BROKEN: the tests fail without a change.

import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { Glob } from 'bun';
import { folderWith } from '../support/folder.ts';
import { type Mutant, mutantsOf } from './mutations/mutants.ts';

const ROOT = join(import.meta.dir, '../..');
const COPIED = ['src', 'db', 'tests', 'package.json', 'bunfig.toml', 'tsconfig.json', 'README.md', '.github'];
const TEST_MS_MAX = 120_000;
/** Decisions that keys, people or data depend on. */
const DECIDES = ['keys', 'calls', 'uses', 'store', 'doors/signin', 'users', 'web', 'api'];
/** Tests beside those of the room that look at its decisions. */
const BESIDE: Readonly<Record<string, readonly string[]>> = {
  keys: ['tools', 'security'],
  store: ['keys', 'uses'],
  'doors/signin': ['security'],
  users: ['security'],
  calls: ['tools', 'security'],
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { sample: { type: 'string', default: '50' }, seed: { type: 'string', default: '1' } },
});
const files = positionals.length > 0 ? positionals : DECIDES.flatMap((room) => globbed(`src/${room}/**/*.ts`));
const copy = folderWith({});
for (const path of COPIED) cpSync(join(ROOT, path), join(copy, path), { recursive: true });
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));

const outcomes = { noticed: 0, SURVIVED: 0, BROKEN: 0 };
const passUnchanged = new Map<string, boolean>();
for (const { file, mutant } of sampleOf(allMutants(), Number(values.sample), Number(values.seed))) {
  const [outcome, noticedBy] = outcomeOf(file, mutant);
  outcomes[outcome] += 1;
  console.log(outcome.padEnd(8), `${file}:${mutant.line}`, mutant.what);
  if (noticedBy !== undefined) console.log(' '.repeat(8), noticedBy);
}
console.log(outcomes);
process.exit(outcomes.BROKEN === 0 ? 0 : 1);

function allMutants() {
  return files.flatMap((file) => mutantsOf(readFileSync(join(ROOT, file), 'utf8')).map((mutant) => ({ file, mutant })));
}

/** Returns `count` of them at most, the same for the same seed, in their order. */
function sampleOf<T>(all: readonly T[], count: number, seed: number): T[] {
  const rank = (index: number) => Bun.hash(`${seed} ${index}`);
  const chosen = [...all.keys()].sort((a, b) => (rank(a) < rank(b) ? -1 : 1)).slice(0, count);
  return chosen.sort((a, b) => a - b).flatMap((index) => all[index] ?? []);
}

function outcomeOf(file: string, mutant: Mutant): [outcome: keyof typeof outcomes, noticedBy?: string] {
  const tests = testsOf(file);
  const name = tests.join(' ');
  const passed = passUnchanged.get(name) ?? failingOf(tests) === null;
  passUnchanged.set(name, passed);
  if (!passed) return ['BROKEN'];
  const source = readFileSync(join(ROOT, file), 'utf8');
  writeFileSync(join(copy, file), source.slice(0, mutant.start) + mutant.text + source.slice(mutant.end));
  const failing = failingOf(tests);
  writeFileSync(join(copy, file), source);
  return failing === null ? ['SURVIVED'] : ['noticed', failing];
}

/** Returns the tests of a file's room and those beside, the ones that bear its name first. */
function testsOf(file: string): string[] {
  const room = /^src\/(doors\/[^/]+|[^/]+)/.exec(file)?.[1] ?? '';
  const own = basename(file, '.ts');
  const found = [room, ...(BESIDE[room] ?? [])].flatMap((one) => globbed(`tests/${one}/**/*.test.ts`));
  const usual = found.filter((path) => !/\.(slow|alone)\.test\.ts$/.test(path));
  const isOwn = (path: string) => Number(path.includes(own));
  return usual.sort((a, b) => isOwn(b) - isOwn(a)).map((path) => `./${path}`);
}

/** Returns the first of these tests that fails as the copy is now, or null if all pass. */
function failingOf(tests: readonly string[]): string | null {
  const { success, stderr } = Bun.spawnSync(
    [process.execPath, '--no-env-file', 'test', '--bail', '--timeout', String(TEST_MS_MAX), ...tests],
    { cwd: copy, stdout: 'ignore', stderr: 'pipe', env: { ...process.env, NO_COLOR: '1' } },
  );
  return success ? null : (/^\(fail\) (.*)/m.exec(stderr.toString())?.[1] ?? 'it can not be loaded');
}

function globbed(pattern: string): string[] {
  return [...new Glob(pattern).scanSync(ROOT)].sort();
}
