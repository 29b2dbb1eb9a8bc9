// The documents name only files that exist.

import { expect, test } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dir, '..');

test.each(['README.md', '.github/SECURITY.md'])('every test that %s names is there', (document) => {
  const named = readFileSync(join(ROOT, document), 'utf8').match(/\btests\/[\w./-]*\w/g) ?? [];
  expect(named).not.toBeEmpty();
  expect(named.filter((name) => !existsSync(join(ROOT, name)))).toEqual([]);
});
