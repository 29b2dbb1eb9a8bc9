// Loads a part of the server at its first use, which most servers never make. The files of a running server may be
// updated under it, and a part of another version doesn't fit what is loaded already: it needs a restart.

import { readdirSync, statSync } from 'node:fs';
import { once } from './cache.ts';
import type { Awaitable } from './result.ts';

/**
 * Returns what makes loaders for the files beside `file`, a URL like import.meta.url. A loader loads a part once; then it
 * returns the part at once. It rejects if the part can't be loaded, or if the files there have changed since this was called;
 * the next use tries again.
 */
export function atFirstUse(name: string, file: string): <T>(load: () => Promise<T>) => () => Awaitable<T> {
  const folder = new URL('.', file);
  const before = filesIn(folder);

  return <T>(load: () => Promise<T>) => {
    let part: T | undefined;
    const loading = once(async () => {
      if (filesIn(folder) !== before) {
        throw new Error(`${name}: its files have changed since the start; restart the server`);
      }
      part = await load();
      return part;
    });
    return () => part ?? loading();
  };
}

/** Returns a text that differs if a file does; empty where there are none, as in an executable. */
function filesIn(folder: URL): string {
  try {
    const names = readdirSync(folder).sort();
    const found = names.map((name) => statSync(new URL(name, folder)));
    return found.map(({ size, mtimeMs }, at) => `${names[at]} ${size} ${mtimeMs}`).join('\n');
  } catch {
    return '';
  }
}
