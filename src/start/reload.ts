// Reloads tool files that change while a development server runs: watches their folder, and replaces the running service
// on the same port by one with the new tools. If a file has a mistake, the running service stays.

import { existsSync, type FSWatcher, realpathSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Cancel, Clock } from '../ground/runtime.ts';
import { reasonOf } from '../ground/text.ts';
import type { ToolFile } from '../tools/folder/tool-file.ts';
import type { Log } from '../watch/log.ts';
import type { Stoppable } from './stop.ts';

/** Editors write a file in several steps, so changes are debounced. */
const SETTLE_MS = 50;

interface Replacement extends Pick<Stoppable, 'close'> {
  readonly app: Pick<Stoppable['app'], 'endStreams' | 'idle'>;
  /** The names of tools and prompts, by file. */
  readonly custom: ReadonlyMap<string, readonly string[]>;
  open(): Promise<void>;
}

interface FirstOptions<Service> {
  /** Reads the current tool files. */
  readonly read: () => Promise<readonly ToolFile[]>;
  /** Makes a service with them, without opening its database. */
  readonly make: (files: readonly ToolFile[]) => Promise<Service>;
  /** Reports a mistake on the terminal. */
  readonly say: (line: string) => void;
  readonly log: Log;
}

interface ReloadOptions<Service> extends FirstOptions<Service> {
  /** Lets a service answer requests from now on, and returns the one before. */
  readonly replace: (service: Service) => Service;
  readonly clock: Clock;
}

/** Makes the first service. A mistake in a file leaves it without tools; anything else is thrown. */
export async function makeFirst<Service>(options: FirstOptions<Service>): Promise<Service> {
  const { read, make } = options;
  try {
    return await make(await read());
  } catch (error) {
    const bare = await make([]); // throws as well unless the files are at fault
    report(error, options);
    return bare;
  }
}

function report(error: unknown, { say, log }: FirstOptions<unknown>): void {
  const reason = reasonOf(error);
  log.warn('tools not reloaded', { reason });
  say(`${reason}\n  the tools stay as they were until the next change`);
}

/** Creates a function that reloads the folder soon: one change at a time, in order. */
export function createReload<Service extends Replacement>(options: ReloadOptions<Service>): () => void {
  const { read, make, replace, clock, log } = options;
  let settling: Cancel | undefined;
  let underWay = Promise.resolve();

  async function takeOver(): Promise<void> {
    const next = await make(await read());
    await next.open();
    const before = replace(next);
    log.info('tools reloaded', { tools: Object.fromEntries(next.custom) });
    before.app.endStreams();
    void before.app
      .idle()
      .then(before.close)
      .catch((error) => log.error('internal error', { error }));
  }

  async function now(): Promise<void> {
    try {
      await takeOver();
    } catch (error) {
      report(error, options);
    }
  }

  return () => {
    settling?.();
    settling = clock.after(SETTLE_MS, () => {
      underWay = underWay.then(now);
    });
  };
}

/**
 * Calls `changed` at every change in the folder, with the name of the file, and whenever the folder appears, disappears or is
 * replaced, with no name. Returns a function that is called before the folder is read: it watches the one that is there then.
 */
export function watchTools(folder: string, changed: (name: string) => void): () => void {
  let watcher: FSWatcher | undefined;
  let isReplaced = true; // one that was replaced has no events
  const follow = () => {
    if (!isReplaced) return;
    isReplaced = false;
    watcher?.close();
    // By its real path: Deno does not watch a link once more.
    watcher = existsSync(folder)
      ? watch(realpathSync(folder), { recursive: true }, (_, path) => changed(basename(path ?? '')))
      : undefined;
  };
  try {
    // Not followed at once: of a removal and another folder in its place within 10 ms, Bun tells the removal alone.
    watch(dirname(folder), (_, name) => {
      if (name !== basename(folder)) return;
      isReplaced = true;
      changed('');
    });
  } catch {
    // There is no place for the folder, which its reader reports, or none that may be listed: then it can't be replaced.
  }
  follow();
  return follow;
}
