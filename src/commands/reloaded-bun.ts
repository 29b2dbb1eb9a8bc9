// Has Bun read modules of tools again while a server runs, for `dev`. reloaded-deno.ts does the same on Deno.

import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { once } from '../ground/cache.ts';
import { SERVER_NAME } from '../ground/server-info.ts';

/** The folder whose modules are reloaded, with links resolved as Bun does in their names, and how often. */
const reloaded = { folder: '', count: 0 };

/**
 * Gives reloaded modules a new name each time, because Bun keeps a module that failed, and so do those that import it.
 */
const renameReloaded = once(() => {
  let isResolving = false; // resolveSync asks this plugin, too
  /** Returns the file of the tools that an import names; undefined for another, or if Bun says what is missing. */
  function toolAt(path: string, folder: string): string | undefined {
    isResolving = true;
    try {
      const [file = ''] = Bun.resolveSync(path, folder).split('?');
      return file.startsWith(`${reloaded.folder}/`) && !file.includes('/node_modules/') ? file : undefined;
    } catch {
      return undefined;
    } finally {
      isResolving = false;
    }
  }
  function rename({ path, importer }: { path: string; importer: string }) {
    const file = isResolving ? undefined : toolAt(path, dirname(importer));
    return file === undefined ? undefined : { path: `${file}?read=${reloaded.count}` };
  }
  /** Loads a module, and adds the endings of files to its imports: Bun asks no plugin about those without one. */
  function load({ path }: { path: string }) {
    const [file = ''] = path.split('?');
    const folder = dirname(file);
    const contents = readFileSync(file, 'utf8').replace(IMPORTED, (name) => {
      const without = join(folder, name);
      const imported = toolAt(name, folder);
      return imported?.startsWith(without) ? name + imported.slice(without.length) : name;
    });
    return { contents, loader: 'ts' } as const;
  }
  Bun.plugin({
    name: `${SERVER_NAME} dev`,
    setup(build) {
      build.onResolve({ filter: /^\.{0,2}\// }, rename);
      build.onLoad({ filter: /\.ts\?read=\d+$/ }, load); // of a .js it would not tell whether it is CommonJS
    },
  });
  return true;
});

/** The relative name of a module in an import. */
const IMPORTED = /(?<=\b(?:from|import)\s*\(?\s*(["']))\.{1,2}(?:\/[^"'\n]*)?(?=\1)/g;

export function forgetTools(folder: string): void {
  reloaded.folder = existsSync(folder) ? realpathSync(folder) : folder;
  reloaded.count += 1;
  renameReloaded();
  for (const path of Object.keys(require.cache)) {
    if (path.startsWith(`${reloaded.folder}/`) && !path.includes('/node_modules/')) delete require.cache[path];
  }
}
