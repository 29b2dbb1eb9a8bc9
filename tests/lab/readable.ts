// `bun tests/lab/readable.ts [CHECKOUT]`: how the source of this or another checkout reads, in figures: lengths and
// cognitive complexity of functions (by Biome), imports between rooms, doc comments, bags of options, lines of tests, what
// a start loads, and which files and words are a door's (parts.ts).

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Glob } from 'bun';
import { temporaryFolder } from '../support/folder.ts';
import { BESIDE, DOORS, partOf } from './parts.ts';

const HERE = join(import.meta.dir, '../..');
const root = process.argv[2] ?? HERE;
const src = join(root, 'src');
const all = [...new Glob('**/*.{ts,js,css,html}').scanSync(src)].sort();
const files = all.filter((file) => /\.[tj]s$/.test(file));
const textOf = (file: string) => readFileSync(join(src, file), 'utf8');

/** Limits below those of the check, so that Biome names all that could be the longest or the hardest. */
const RULES = {
  noExcessiveCognitiveComplexity: { level: 'error', options: { maxAllowedComplexity: 5 } },
  noExcessiveLinesPerFunction: { level: 'error', options: { maxLines: 40 } },
};

async function figuresOf(rule: keyof typeof RULES, found: RegExp): Promise<number[]> {
  const config = temporaryFolder();
  const complexity = { [rule]: RULES[rule] };
  await Bun.write(join(config, 'biome.json'), JSON.stringify({ linter: { rules: { preset: 'none', complexity } } }));
  const biome = join(HERE, 'node_modules/.bin/biome');
  const { stdout } = Bun.spawnSync(
    [biome, 'lint', `--config-path=${config}`, '--max-diagnostics=none', '--colors=off', '--reporter=github', src],
    { cwd: root },
  );
  return [...stdout.toString().matchAll(found)].map(([, figure]) => Number(figure)).sort((a, b) => b - a);
}

const lines = await figuresOf('noExcessiveLinesPerFunction', /too many lines \((\d+)\)/g);
const hardness = await figuresOf('noExcessiveCognitiveComplexity', /Excessive complexity of (\d+)/g);

const roomOf = (file: string) => (file.includes('/') ? (file.split('/')[0] ?? '') : file);
const arrows = new Map<string, Set<string>>();
for (const file of files.filter((file) => file.includes('/') && !file.endsWith('.d.ts'))) {
  const to = arrows.get(roomOf(file)) ?? new Set();
  arrows.set(roomOf(file), to);
  for (const [, path = ''] of textOf(file).matchAll(/(?:from|import) '(\.{1,2}\/[^']+)'/g)) {
    const room = roomOf(join(dirname(file), path));
    if (room !== roomOf(file) && !/[.]/.test(room)) to.add(room);
  }
}
const floorOf = (room: string): number =>
  1 + Math.max(0, ...[...(arrows.get(room) ?? [])].map((below) => floorOf(below)));

const comments = files.flatMap((file) =>
  [...textOf(file).matchAll(/\/\*\*[\s*]+([^\n]*)/g)].map(([, text = '']) => text),
);
const tests = [...new Glob('**/*.{ts,js}').scanSync(join(root, 'tests'))].map(
  (file) => readFileSync(join(root, 'tests', file), 'utf8').split('\n').length,
);

console.log(`longest function, functions over 80 lines: ${lines[0]}, ${lines.filter((n) => n > 80).length}
hardest function, functions over 20: ${hardness[0]}, ${hardness.filter((n) => n > 20).length}
rooms, floors, arrows: ${arrows.size}, ${Math.max(...[...arrows.keys()].map(floorOf))}, ${[...arrows.values()].reduce((sum, to) => sum + to.size, 0)}
doc comments, of these with a beginning like "Of" or "As": ${comments.length}, ${comments.filter((text) => /^(Of|As|Null|With|Without|For|In|By)\b/.test(text)).length}
lines of tests: ${tests.reduce((sum, n) => sum + n, 0)}`);

const linesOf = (file: string) => textOf(file).split('\n').length - 1;
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
const count = (pattern: RegExp) => sum(files.map((file) => textOf(file).match(pattern)?.length ?? 0));
console.log(`Pick<, Omit<, indexed types: ${count(/\b(?:Pick|Omit)</g)}, ${count(/\b(?:\w*Options|\w*Parts|Config)\['/g)}
spreads of options, parts, config: ${count(/\.\.\.(?:\w+\.)?(?:options|parts|config)\b/g)}`);

const loaded = loadedBy('main.ts');
console.log(`modules that a start imports: ${loaded.length}, TypeScript ${loaded.filter((file) => file.endsWith('.ts')).length}
lines of these: ${sum(loaded.filter((file) => file.endsWith('.ts')).map(linesOf))}\n`);

const parts = [...DOORS.map(({ name }) => name), ...BESIDE.map(({ name }) => name), 'core'];
const outside = files.filter((file) => partOf(file) === 'core' || BESIDE.some(({ name }) => name === partOf(file)));
const rows = parts.map((name) => {
  const own = all.filter((file) => partOf(file) === name);
  const words = DOORS.find((door) => door.name === name)?.words;
  const said = words === undefined ? [] : outside.map((file) => wordsIn(file, words)).filter((lines) => lines > 0);
  const started = loaded.filter((file) => own.includes(file));
  return [
    name,
    own.length,
    sum(own.map(linesOf)),
    new Set(own.map(roomOf)).size,
    words === undefined ? '' : sum(said),
    words === undefined ? '' : said.length,
    sum(started.map(linesOf)),
  ];
});
const HEAD = ['part', 'files', 'lines', 'rooms', 'its words outside doors', 'in files', 'lines that a start loads'];
for (const row of [HEAD, HEAD.map(() => '---'), ...rows]) console.log(`| ${row.join(' | ')} |`);

function wordsIn(file: string, words: RegExp): number {
  return textOf(file)
    .split('\n')
    .filter((line) => words.test(line)).length;
}

/** The files that an entry imports statically, itself included. */
function loadedBy(entry: string): string[] {
  const transpiler = new Bun.Transpiler({ loader: 'ts' });
  const seen = new Set<string>();
  const queue = [entry];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    if (!file.endsWith('.ts')) continue;
    for (const { path, kind } of transpiler.scanImports(textOf(file)))
      if (path.startsWith('.') && kind !== 'dynamic-import') queue.push(join(dirname(file), path));
  }
  return [...seen].filter((file) => all.includes(file));
}
