// The program as it is deployed: what `start` needs, in a folder of its own, where it installs its packages.

import { cpSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ROOT } from './documents.ts';
import { diskFolder } from './folder.ts';

const DEPLOYED = ['src', 'db', 'package.json', 'bun.lock', 'bunfig.toml'];

/** A copy without packages. */
export function productionFolder(): string {
  const folder = diskFolder();
  for (const name of DEPLOYED) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  return folder;
}

/** What a package manager needs of the environment; its downloads are kept where they always are. */
export const productionEnv = (folder: string): Record<string, string> => ({
  PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`,
  HOME: process.env.HOME ?? folder,
});
