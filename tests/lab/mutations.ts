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
/** A change may loop without end. */
const RUN_MS_MAX = 900_000;
/** As in `bun run test`, whose rows and options these are. */
const USUAL = { TEST_ROWS: 'usual', BUN_JSC_useDFGJIT: '0', BUN_GC_TIMER_DISABLE: '1', NO_COLOR: '1' };
/** Decisions that keys, people or data depend on. */
const DECIDES = ['keys', 'calls', 'uses', 'store', 'doors', 'mcp', 'users', 'web', 'api'];
/** How the paths of tests begin that look at a room's decisions, beside those of the room. */
const BESIDE: Readonly<Record<string, readonly string[]>> = {
  keys: ['tools', 'security', 'doors/together', 'doors/owners', 'doors/admin', 'doors/services/lease', 'uses'],
  store: ['keys', 'uses', 'doors/admin'],
  uses: ['calls', 'api', 'tools', 'doors/owners', 'doors/admin'],
  users: ['security', 'doors/together', 'doors/rules/whose', 'mcp', 'api/production', 'config'],
  calls: ['tools', 'security', 'api', 'mcp'],
  mcp: ['calls', 'tools', 'security', 'doors/sse', 'doors/signin/challenges'],
  web: ['api', 'calls', 'security', 'mcp', 'doors/sse'],
  api: ['security', 'doors/together', 'doors/children'],
  'doors/admin': ['doors/children', 'doors/owners', 'doors/together', 'commands/keys', 'commands/import'],
  'doors/owners': ['doors/admin', 'doors/together', 'uses', 'commands/keys'],
  'doors/children': ['doors/together', 'doors/rules', 'store'],
  'doors/copies': ['store'],
  'doors/metrics': ['watch', 'uses'],
  'doors/page': ['doors/together', 'security'],
  'doors/rules': ['doors/together', 'users'],
  'doors/services': ['doors/together', 'security', 'uses'],
  'doors/signin': ['doors/together', 'security'],
  'doors/sse': ['mcp', 'doors/together'],
  'doors/traces': ['watch'],
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { sample: { type: 'string', default: '50' }, seed: { type: 'string', default: '1' } },
});
const files = positionals.length > 0 ? positionals : DECIDES.flatMap((room) => globbed(`src/${room}/**/*.ts`));
const usualTests = globbed('tests/**/*.test.ts').filter((path) => !/\.(slow|alone)\.test\.ts$/.test(path));
const copy = folderWith({});
for (const path of COPIED) cpSync(join(ROOT, path), join(copy, path), { recursive: true });
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));

const outcomes = { noticed: 0, SURVIVED: 0, BROKEN: 0 };
/** How long each file of tests takes without a change; null: it fails. */
const unchangedMs = new Map<string, number | null>();
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
  const broken = tests.find((test) => msOf(test) === null);
  if (broken !== undefined) return ['BROKEN', broken];
  const source = readFileSync(join(ROOT, file), 'utf8');
  writeFileSync(join(copy, file), source.slice(0, mutant.start) + mutant.text + source.slice(mutant.end));
  const failing = failingOf(tests);
  writeFileSync(join(copy, file), source);
  return failing === null ? ['SURVIVED'] : ['noticed', failing];
}

/** Returns the tests of a file's room and those beside: first those that bear its name, then the quickest. */
function testsOf(file: string): string[] {
  const room = /^src\/(doors\/[^/]+|[^/]+)/.exec(file)?.[1] ?? '';
  const own = basename(file, '.ts');
  const found = usualTests.filter((path) =>
    [room, ...(BESIDE[room] ?? [])].some((one) => path.startsWith(`tests/${one}`)),
  );
  const rank = (path: string) => (msOf(path) ?? 0) - (basename(path).includes(own) ? TEST_MS_MAX : 0);
  return found.sort((a, b) => rank(a) - rank(b));
}

function msOf(test: string): number | null {
  const known = unchangedMs.get(test);
  if (known !== undefined) return known;
  const startedMs = performance.now();
  const ms = failingOf([test]) === null ? performance.now() - startedMs : null;
  unchangedMs.set(test, ms);
  return ms;
}

/** Returns the first of these tests that fails as the copy is now, or null if all pass. */
function failingOf(tests: readonly string[]): string | null {
  const { success, stderr } = Bun.spawnSync(
    [
      process.execPath,
      '--no-env-file',
      'test',
      '--bail',
      '--timeout',
      String(TEST_MS_MAX),
      ...tests.map((test) => `./${test}`),
    ],
    { cwd: copy, timeout: RUN_MS_MAX, stdout: 'ignore', stderr: 'pipe', env: { ...process.env, ...USUAL } },
  );
  return success ? null : (/^\(fail\) (.*)/m.exec(stderr.toString())?.[1] ?? 'it can not be loaded, or does not end');
}

function globbed(pattern: string): string[] {
  return [...new Glob(pattern).scanSync(ROOT)].sort();
}
