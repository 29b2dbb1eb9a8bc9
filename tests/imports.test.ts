// Which part of the source may import which, which files may name a runtime, and how comments begin. Reads the source;
// nothing is run.

import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { Glob } from 'bun';
import { readDocument, unquoted } from './support/documents.ts';

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
}

/** With style sheets, pages and scripts, and what those scripts import. */
const imports: Import[] = [...new Glob('**/*.{ts,js}').scanSync(SRC)].flatMap(
  (file) =>
    [...source(file).matchAll(/^(?:import|export)\b[^;'"]*?\bfrom '([^']+)'|\bimport\('([^']+)'\)/gm)]
      .map(([, statically, dynamically]) => statically ?? dynamically ?? '')
      .filter((path) => path.startsWith('.'))
      .map((path) => ({ from: file, to: posix.join(posix.dirname(file), path) }))
      .filter(({ to }) => !to.startsWith('../')), // migrations and package.json
);

const partOf = (file: string) => (file.includes('/') ? `${file.split('/')[0]}/` : file);

/** For all rooms. */
const BASE = ['ground/', 'watch/'];
/** The rooms, each above those that it may import, with what those are beside the base. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  'commands/': ['calls/', 'config/', 'doors/', 'keys/', 'start/', 'store/', 'tools/', 'users/', 'uses/'],
  'start/': ['app.ts', 'calls/', 'config/', 'main.deno.ts', 'main.ts', 'tools/', 'web/'],
  'doors/': ['api/', 'calls/', 'config/', 'keys/', 'mcp/', 'pages/', 'store/', 'tools/', 'users/', 'uses/', 'web/'],
  'api/': ['calls/', 'config/', 'keys/', 'mcp/', 'pages/', 'web/'],
  'config/': ['store/', 'users/'],
  'pages/': ['calls/', 'web/'],
  'mcp/': ['calls/', 'web/'],
  'tools/': ['calls/', 'keys/'],
  'users/': ['calls/'],
  'store/': ['keys/', 'uses/'],
  'calls/': ['keys/', 'web/'],
  'keys/': ['uses/'],
  'uses/': [],
  'web/': [],
  'watch/': [],
  'ground/': [],
};

/** All rooms may import the base; within it, the log what is below it. */
const isBelow = (part: string, to: string) => to === 'ground/' || (to === 'watch/' && part !== 'ground/');

describe.each(Object.entries(ALLOWED))('src/%s', (part, allowed) => {
  test(`imports only itself and ${allowed.length} other parts`, () => {
    const others = imports
      .filter(({ from, to }) => partOf(from) === part && partOf(to) !== part)
      .filter(({ to }) => !allowed.includes(partOf(to)) && !isBelow(part, partOf(to)))
      .map(({ from, to }) => `${from} → ${to}`);
    expect(others).toEqual([]);
  });

  test('imports each of them, but for the base', () => {
    const imported = new Set(imports.filter(({ from }) => partOf(from) === part).map(({ to }) => partOf(to)));
    expect(allowed.filter((other) => !BASE.includes(other) && !imported.has(other))).toEqual([]);
  });
});

const importersOf = (part: string) => [
  ...new Set(imports.filter(({ from, to }) => partOf(to) === part && partOf(from) !== part).map(({ from }) => from)),
];

test('only the wiring, commands, doors and the configuration import the store', () => {
  expect([...new Set(importersOf('store/').map(partOf))].sort()).toEqual(['commands/', 'config/', 'core.ts', 'doors/']);
});

test('only the wiring and commands import a door, by its entry, and no door another', () => {
  const doorOf = (file: string) => /^doors\/[^/]+\//.exec(file)?.[0];
  const entering = imports.filter(({ from, to }) => doorOf(to) !== undefined && doorOf(to) !== doorOf(from));
  expect([...new Set(entering.map(({ from }) => partOf(from)))].sort()).toEqual(['app.ts', 'commands/']);
  expect(entering.map(({ to }) => to).filter((to) => !/^doors\/[^/]+\/index\.ts$/.test(to))).toEqual([]);
});

test('only the server, the package and its test app import the wiring', () => {
  expect(importersOf('app.ts').sort()).toEqual([
    'start/package/index.ts',
    'start/package/testing/test-app.ts',
    'start/server.ts',
  ]);
});

test('every room of the source is in the table, or puts the rooms together', () => {
  const together = ['app.ts', 'core.ts', 'main.ts', 'main.deno.ts', 'cli.ts'];
  const parts = new Set(files.map(partOf));
  expect([...parts].filter((part) => !(part in ALLOWED) && !together.includes(part))).toEqual([]);
});

test('no file imports itself through others, not even for types', () => {
  const edges = Map.groupBy(imports, ({ from }) => from);
  const all = new Set([...files, ...imports.flatMap(({ from, to }) => [from, to])]);
  const done = new Set<string>();
  function visit(file: string, path: readonly string[]): void {
    if (path.includes(file)) throw new Error(`a circle: ${[...path, file].join(' → ')}`);
    if (done.has(file)) return;
    for (const { to } of edges.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  }
  for (const file of all) visit(file, []);
  expect(done.size).toBe(all.size);
});

/** Modules besides the source that every start loads. Each takes ms: others are imported when they are needed. */
const LOADED_AT_START = ['@valibot/to-json-schema', 'node:fs', 'node:path', 'valibot'];

test('a start loads what it needs; cryptography, streams, the driver and the like are imported when they are needed', () => {
  const loaded = new Set(['main.ts']);
  const others = new Set<string>();
  for (const file of loaded) {
    for (const [, path = ''] of source(file).matchAll(/^(?:import|export)\b(?! type\b)[^;'"]*?\bfrom '([^']+)';/gm)) {
      if (path.startsWith('.')) loaded.add(posix.join(posix.dirname(file), path));
      else others.add(path);
    }
  }
  expect([...others].sort()).toEqual(LOADED_AT_START);
  expect([...loaded]).toContain('app.ts');
  const { table } = readDocument('src/README.md');
  for (const [door = '', , atStart] of table('The doors')) {
    const files = [...loaded].filter((file) => file.startsWith(`doors/${unquoted(door)}`));
    expect([door, files.length]).toEqual([door, Number(atStart)]);
  }
});

test('only entry files name a runtime', () => {
  const naming = files.filter((file) => /\b(Bun|Deno|process)\b(?!:)/.test(code(file)));
  expect(naming.filter((file) => !isEntry(file))).toEqual([]);
  expect(naming).toContain('main.ts');
});

/** Files with timers of real time, beside the commands, and what those wait for. */
const REAL_TIMERS = {
  'ground/runtime.ts': 'they are the clock’s',
  'watch/log.ts': 'more lines for the same write',
  'store/remote/attempt.ts': 'a response over the network',
  'doors/services/verifier.ts': 'responses of a server, in the program of somebody else',
};

test('timers come from the clock, so that tests can move them, but for those that wait for what is real', () => {
  const naming = files.filter((file) => /\b(setTimeout|setInterval)\(|AbortSignal\.timeout\(/.test(code(file)));
  expect(naming.filter((file) => !isEntry(file)).sort()).toEqual(Object.keys(REAL_TIMERS).sort());
});

test('every file begins by saying what it does', () => {
  const tests = [...new Glob('**/*.ts').scanSync(import.meta.dir)].map((file) => join('../tests', file));
  expect([...files, ...tests].filter((file) => !source(file).startsWith('// '))).toEqual([]);
});

/** Each doc comment in one line, and the line of code after it. */
const commentsOf = (file: string): { readonly text: string; readonly code: string }[] =>
  [...source(file).matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*([^\n]*)/g)].map(([, text = '', code = '']) => ({
    text: `${file}: ${text.replace(/\s*\n\s*\* ?/g, ' ').trim()}`,
    code,
  }));

/** A declaration, an arrow function, a method, or a field for one. */
const FUNCTION =
  /^(export )?(default )?(async )?function\b|^(export )?const \w+ =$|^((export )?const |readonly )?#?\w+\??(: [^=]+ =| =|:) (async )?(<.+>)?\(|^(async |get )*#?\w+(<.+>)?\(/;
/** Plural nouns that such a comment could begin with. */
const NOUNS = /: (Calls whose|Facts|Hints|Keys|Limits|Lines|Names|Rows|Scopes|Texts|This|Users)\b/;

test('doc comments are sentences: those of functions begin with a verb, and none with a word that needs another', () => {
  const comments = [...new Glob('**/*.{ts,js}').scanSync(SRC)].flatMap(commentsOf);
  const texts = comments.map(({ text }) => text);
  expect(texts.filter((text) => /^[^:]+: (Of|As|Null|With|Without|For|In|By)\b/.test(text))).toEqual([]);
  const ofFunctions = comments.filter(({ code }) => FUNCTION.test(code)).map(({ text }) => text);
  expect(ofFunctions.filter((text) => !/^[^:]+: [A-Z][a-z-]*s\b/.test(text) || NOUNS.test(text))).toEqual([]);
  expect(ofFunctions.length).toBeGreaterThan(700);
});

test('a test that needs Chromium is in browser/, and one that measures or takes minutes is in lab/', () => {
  const own = [...new Glob('**/*.ts').scanSync(import.meta.dir)].filter((file) => !/^(lab|support)\//.test(file));
  const inChromium = own.filter((file) => /support\/browser\.ts'/.test(source(join('../tests', file))));
  expect(inChromium.filter((file) => !file.startsWith('browser/'))).toEqual([]);
  expect(inChromium.length).toBeGreaterThan(5);
  expect(own.filter((file) => /\.(alone\.test|long)\.ts$/.test(file))).toEqual([]);
});

/** Test files that reach into a room, and why: all others look from outside, over HTTP, with commands and the package. */
const INSIDE: Readonly<Record<string, readonly string[]>> = {
  'pure functions, structures and clocks: each of their cases over HTTP would take a server, or a day': [
    'commands/keys-mistakes.test.ts',
    'config/settings-report.test.ts',
    'ground/background.test.ts',
    'ground/limits/pool.test.ts',
    'ground/limits/semaphore.test.ts',
    'ground/limits/token-bucket.test.ts',
    'ground/limits/windows.test.ts',
    'ground/lru-cache.test.ts',
    'doors/rules/token-checks.test.ts',
    'doors/rules/rule.test.ts',
    'doors/signin/redirects.test.ts',
    'ground/strict-json.test.ts',
    'ground/runtime.test.ts',
    'ground/single-flight.test.ts',
    'keys/person-budget.test.ts',
  ],
  'the code’s own tables and types, with which documents, sweeps and other programs are compared': [
    'mcp/wire-types.test.ts',
    'support/tables.ts',
  ],
  'moments that only a stand-in for the store, the issuer or the runtime can choose': [
    'keys/feed.test.ts',
    'keys/unknown-keys.test.ts',
    'mcp/request-state.test.ts',
    'users/jwks.test.ts',
    'uses/usage-over.ts',
    'uses/shared-usage.ts',
    'watch/outage.test.ts',
    'web/request-batching.test.ts',
    'web/stream.test.ts',
  ],
  'the store’s statements and files, which no server is needed for': [
    'doors/admin/store.test.ts',
    'doors/copies/backup.test.ts',
    'doors/copies/replica/followers.ts',
    'store/counts.test.ts',
    'store/embedded/group-commit.test.ts',
    'store/migration.test.ts',
    'store/upkeep.test.ts',
  ],
  'widgets in a page of their own': ['browser/widgets/lab/lab.ts', 'browser/widgets/preview.test.ts'],
  'what others are given': ['support/stores.ts', 'support/failing-start.ts', 'support/test-app.ts'],
  'one part is measured': ['lab/bench/servers/bare.ts', 'lab/load/parts.alone.test.ts'],
};
/** May only become fewer. */
const INSIDE_MAX = 40;
/** What programs import and operators type. */
const ENTRY = /^(start\/package\/|doors\/services\/verifier\.ts$|commands\/[\w-]+\.ts$|main)/;

test('tests look from outside, but for those that say why not', () => {
  const inside = [...new Glob('**/*.ts').scanSync(import.meta.dir)].filter((file) =>
    [...source(join('../tests', file)).matchAll(/^import\b[^;'"]*?\bfrom '([^']+)'/gm)]
      .map(([, path = '']) => posix.join('tests', posix.dirname(file), path))
      .some((path) => path.startsWith('src/') && !ENTRY.test(path.slice('src/'.length))),
  );
  expect(inside.sort()).toEqual(Object.values(INSIDE).flat().sort());
  expect(inside.length).toBeLessThanOrEqual(INSIDE_MAX);
});

test('outside store/ tables are changed by hand where that is the matter, and read through tests/store/stored.ts alone', () => {
  const others = [...new Glob('**/*.test.ts').scanSync(import.meta.dir)].filter(
    (file) => !/^(lab|store|doors\/copies)\//.test(file),
  );
  const reading = others.filter((file) =>
    /\bSELECT\b[^;`'"]*? FROM (api_keys|codes|changes|key_\w+|server_secrets)\b(?! WHERE user_id LIKE)/.test(
      source(join('../tests', file)),
    ),
  );
  expect(reading).toEqual(['process/lost-log.slow.test.ts']); // a file that no server has any more
});
