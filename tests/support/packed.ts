// The package and the executable, from a copy of the source.

import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { output } from './command.ts';
import { ROOT } from './documents.ts';
import { fill } from './folder.ts';
import { productionEnv } from './production.ts';
import { copyOfSource } from './source.ts';

/** A clone to pack the package from. `earlier`: files of an earlier build, below dist/. */
export function cloneToPack(earlier: readonly string[]): string {
  const root = copyOfSource();
  fill(root, Object.fromEntries(earlier.map((file) => [join('dist', file), 'of an earlier build'])));
  for (const file of ['README.md', 'LICENSE']) cpSync(join(ROOT, file), join(root, file));
  return root;
}

/** The path of the executable. */
export async function executable(): Promise<string> {
  const root = copyOfSource();
  await output([process.execPath, 'src/commands/build.ts', '--compile'], { cwd: root, env: productionEnv(root) });
  return join(root, 'dist/mcp-key-server');
}
