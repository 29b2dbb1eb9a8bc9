// SECURITY.md names only tests that there are.

import { expect, test } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dir, '..');

test('every test that SECURITY.md names is there', () => {
  const named = readFileSync(join(ROOT, 'SECURITY.md'), 'utf8').match(/`tests\/[^`]+`/g) ?? [];
  expect(named.length).toBeGreaterThan(20);
  expect(named.map((name) => name.slice(1, -1)).filter((name) => !existsSync(join(ROOT, name)))).toEqual([]);
});
