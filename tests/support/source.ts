// The source, for tests that change it and start the server from their copy.

import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './documents.ts';
import { temporaryFolder } from './folder.ts';

/** A copy of the source and the packages, and nothing else. `tools` is there, empty, for tools of one's own. */
export function copyOfSource(root = temporaryFolder()): string {
  for (const part of ['src', 'db']) cpSync(join(ROOT, part), join(root, part), { recursive: true });
  for (const file of ['package.json', 'tsconfig.json']) cpSync(join(ROOT, file), join(root, file));
  for (const folder of ['tests', 'tools']) mkdirSync(join(root, folder));
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  return root;
}

/** What a checkout has beside its files: history, packages, data. */
const NOT_COPIED = ['.git', 'node_modules', 'data', 'dist'];

/** A copy of all files, tests and documents included, and the packages. */
export function copyOfAll(): string {
  const root = temporaryFolder();
  for (const part of readdirSync(ROOT)) {
    if (!NOT_COPIED.includes(part)) cpSync(join(ROOT, part), join(root, part), { recursive: true });
  }
  mkdirSync(join(root, 'tools'), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  return root;
}
