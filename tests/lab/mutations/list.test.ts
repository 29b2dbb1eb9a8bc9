// Whether the list still fits the source: a mutation whose line has moved on tries nothing.

import { expect, test } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MUTATIONS } from './list.ts';

const ROOT = join(import.meta.dir, '../../..');

test('each line to change is there exactly once, and so are the tests that should notice', () => {
  const sources = new Map(MUTATIONS.map(({ file }) => [file, readFileSync(join(ROOT, file), 'utf8')]));
  const outdated = MUTATIONS.filter(({ file, from }) => sources.get(file)?.split(from).length !== 2);
  expect(outdated.map(({ name, file }) => `${file}: ${name}`)).toEqual([]);
  const tests = new Set(MUTATIONS.flatMap(({ tests }) => tests));
  expect([...tests].filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});
