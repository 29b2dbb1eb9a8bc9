// Has Deno read modules of tools again while a server runs, for `dev`.

import nodeModule from 'node:module';
import { pathToFileURL } from 'node:url';
import { once } from '../ground/cache.ts';

/** The URL of the folder whose modules are reloaded, and how often. */
const reloaded = { folder: '', count: 0 };

const isTool = (url: string): boolean => url.startsWith(reloaded.folder) && !url.includes('/node_modules/');

/** Gives reloaded modules a new URL each time, because Deno caches modules by URL. */
const renameReloaded = once(() =>
  // a named import would fail on Bun, whose executable contains this file, too
  nodeModule.registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      return isTool(found.url) ? { ...found, url: `${found.url}?read=${reloaded.count}` } : found;
    },
  }),
);

export function forgetTools(folder: string): void {
  reloaded.folder = pathToFileURL(`${folder}/`).href;
  reloaded.count += 1;
  renameReloaded();
  const { cache } = nodeModule.createRequire(import.meta.url); // of CommonJS, by path
  for (const path of Object.keys(cache)) if (isTool(pathToFileURL(path).href)) delete cache[path];
}
