// Has Deno read modules of tools again while a server runs, for `dev`.

import nodeModule from 'node:module';
import { pathToFileURL } from 'node:url';
import { once } from '../ground/cache.ts';

/** The URL of the folder whose modules are reloaded, and how often. */
const reloaded = { folder: '', count: 0 };

/** Gives reloaded modules a new URL each time, because Deno caches modules by URL. */
const renameReloaded = once(() =>
  // a named import would fail on Bun, whose executable contains this file, too
  nodeModule.registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const isTool = found.url.startsWith(reloaded.folder) && !found.url.includes('/node_modules/');
      return isTool ? { ...found, url: `${found.url}?read=${reloaded.count}` } : found;
    },
  }),
);

export function forgetTools(folder: string): void {
  reloaded.folder = pathToFileURL(`${folder}/`).href;
  reloaded.count += 1;
  renameReloaded();
}
