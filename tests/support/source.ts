// The source, for tests that change it and start the server from their copy.

import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './folder.ts';

const ROOT = join(import.meta.dir, '../..');

/** A copy of the source and the packages, and nothing else. `tools` is there, empty, for tools of one's own. */
export function copyOfSource(): string {
  const root = temporaryFolder();
  for (const part of ['src', 'db']) cpSync(join(ROOT, part), join(root, part), { recursive: true });
  for (const file of ['package.json', 'tsconfig.json']) cpSync(join(ROOT, file), join(root, file));
  for (const folder of ['tests', 'tools']) mkdirSync(join(root, folder));
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  return root;
}
