// The package as it is published: built and packed from a copy of the source.

import { cpSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { version } from '../../package.json';
import { output } from './command.ts';
import { ROOT } from './documents.ts';
import { copyOfSource } from './source.ts';

/** Bun where commands look for it, and the caller's home, where package managers keep what they have fetched. */
export const BUN_ENV = {
  PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`,
  HOME: process.env.HOME ?? '',
};

/** The path of the tarball. */
export async function packPackage(): Promise<string> {
  const root = copyOfSource();
  for (const file of ['README.md', 'LICENSE']) cpSync(join(ROOT, file), join(root, file));
  await output([process.execPath, 'pm', 'pack'], { cwd: root, env: BUN_ENV });
  return join(root, `mcp-key-server-${version}.tgz`);
}

/** The path of the executable. */
export async function executable(): Promise<string> {
  const root = copyOfSource();
  await output([process.execPath, 'src/commands/build.ts', '--compile'], { cwd: root, env: BUN_ENV });
  return join(root, 'dist/mcp-key-server');
}
