// `bun tests/lab/readable.ts [CHECKOUT]`: how the source of this or another checkout reads, in figures: lengths and
// cognitive complexity of functions (by Biome), imports between rooms, doc comments, and lines of tests.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Glob } from 'bun';
import { temporaryFolder } from '../support/folder.ts';

const HERE = join(import.meta.dir, '../..');
const root = process.argv[2] ?? HERE;
const src = join(root, 'src');
const files = [...new Glob('**/*.{ts,js}').scanSync(src)].sort();
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
for (const file of files.filter((file) => file.includes('/') && !file.startsWith('ground/types/'))) {
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
