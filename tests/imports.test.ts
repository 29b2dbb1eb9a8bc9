// Which part of the source may import which, and which files may name a runtime. Reads the import statements; nothing
// is run.

import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { Glob } from 'bun';

const SRC = join(import.meta.dir, '../src');
const isEntry = (file: string) => file.startsWith('commands/') || ['main.ts', 'main.deno.ts', 'cli.ts'].includes(file);
const files = [...new Glob('**/*.ts').scanSync(SRC)].filter((file) => !file.endsWith('.d.ts'));
const source = (file: string) => readFileSync(join(SRC, file), 'utf8');

/** The source without comments and without what stands in quotes. */
const code = (file: string) =>
  source(file)
    .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|\s\/\/ .*$/gm, '')
    .replace(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, "''");

interface Import {
  readonly from: string;
  readonly to: string;
  readonly typeOnly: boolean;
}

const imports: Import[] = files.flatMap((file) =>
  [...source(file).matchAll(/^(?:import|export)\b([^;'"]*?)\bfrom '([^']+)'|\bimport\('([^']+)'\)/gm)]
    .map(([, what = '', statically, dynamically]) => ({
      typeOnly: what.trimStart().startsWith('type '),
      path: statically ?? dynamically ?? '',
    }))
    .filter(({ path }) => path.startsWith('.'))
    .map(({ path, typeOnly }) => ({ from: file, to: posix.join(posix.dirname(file), path), typeOnly }))
    .filter(({ to }) => to.endsWith('.ts')),
);

const partOf = (file: string) => (file.includes('/') ? `${file.split('/')[0]}/` : file);

/** For all rooms. */
const BASE = ['lib/', 'log/', 'problem.ts'];
/** What may be imported from each room, beside itself. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  'lib/': [],
  'log/': ['lib/'],
  'problem.ts': ['lib/'],
  'config/': BASE,
  'keys/': BASE,
  'http/': BASE,
  'guards/': [...BASE, 'http/', 'keys/'],
  'jwt/': [...BASE, 'config/', 'guards/'],
  'tools/': [...BASE, 'guards/', 'http/', 'keys/'],
  'mcp/': [...BASE, 'guards/', 'http/', 'tools/'],
  'telemetry/': [...BASE, 'guards/', 'http/', 'keys/', 'mcp/', 'tools/'],
  'widgets/': [...BASE, 'mcp/'],
  'routes/': [...BASE, 'config/', 'guards/', 'http/', 'mcp/', 'telemetry/', 'tools/', 'widgets/'],
  'store/': [...BASE, 'config/', 'keys/'],
  'authoring.ts': [...BASE, 'guards/', 'mcp/', 'tools/'],
  'banner.ts': [...BASE, 'config/'],
  'listener.ts': [...BASE, 'config/', 'http/'],
  'renewal.ts': [...BASE, 'config/', 'listener.ts'],
  'server.ts': [
    ...BASE,
    'app.ts',
    'banner.ts',
    'listener.ts',
    'renewal.ts',
    'config/',
    'http/',
    'telemetry/',
    'tools/',
  ],
  'commands/': [...BASE, 'banner.ts', 'config/', 'jwt/', 'keys/', 'store/', 'tools/'],
};

describe.each(Object.entries(ALLOWED))('src/%s', (part, allowed) => {
  test(`imports only itself and ${allowed.length} other parts`, () => {
    const others = imports
      .filter(({ from, to }) => partOf(from) === part && partOf(to) !== part && !allowed.includes(partOf(to)))
      .map(({ from, to }) => `${from} → ${to}`);
    expect(others).toEqual([]);
  });
});

test('only the wiring and the commands import the store, and only the server, the package and its test app import the wiring', () => {
  const importersOf = (part: string) => [
    ...new Set(imports.filter(({ from, to }) => partOf(to) === part && partOf(from) !== part).map(({ from }) => from)),
  ];
  expect([...new Set(importersOf('store/').map(partOf))].sort()).toEqual(['app.ts', 'commands/']);
  expect(importersOf('app.ts').sort()).toEqual(['index.ts', 'server.ts', 'testing/test-app.ts']);
});

test('every room of the source is in the table, or puts the rooms together', () => {
  const together = [
    'app.ts',
    'main.ts',
    'main.deno.ts',
    'this-runtime.ts',
    'cli.ts',
    'start.ts',
    'index.ts',
    'testing.ts',
    'testing/',
  ];
  const parts = new Set(files.map(partOf));
  expect([...parts].filter((part) => !(part in ALLOWED) && !together.includes(part))).toEqual([]);
});

test('nothing goes round in a circle at run time', () => {
  const edges = Map.groupBy(
    imports.filter(({ typeOnly }) => !typeOnly),
    ({ from }) => from,
  );
  const done = new Set<string>();
  function visit(file: string, path: readonly string[]): void {
    if (path.includes(file)) throw new Error(`a circle: ${[...path, file].join(' → ')}`);
    if (done.has(file)) return;
    for (const { to } of edges.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  }
  for (const file of files) visit(file, []);
  expect(done.size).toBe(files.length);
});

test('only entry files name a runtime', () => {
  const naming = files.filter((file) => /\b(Bun|Deno|process)\b(?!:)/.test(code(file)));
  expect(naming.filter((file) => !isEntry(file))).toEqual([]);
  expect(naming).toContain('main.ts');
});

test('every file begins by saying what it does', () => {
  const tests = [...new Glob('**/*.ts').scanSync(import.meta.dir)].map((file) => join('../tests', file));
  expect([...files, ...tests].filter((file) => !source(file).startsWith('// '))).toEqual([]);
});
