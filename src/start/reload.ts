// Reloads tool files that change while a development server runs: watches their folder, and replaces the running service
// on the same port by one with the new tools. If a file has a mistake, the running service stays.

import { existsSync, type FSWatcher, realpathSync, watch } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { once } from '../ground/cache.ts';
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

type DatabaseConfig = Config['database'];

interface ToolFolder {
  readonly path: string;
  /** Reads the current tool files. */
  read(): Promise<readonly ToolFile[]>;
}

interface ReloaderOptions<Service> {
  readonly folder: ToolFolder;
  readonly database: DatabaseConfig;
  /** Drops imported modules of a folder (an absolute path), so that they are read again. */
  readonly forget: (folder: string) => Promise<void>;
  /** Makes a service with tool files, without opening its database. */
  readonly make: (files: readonly ToolFile[]) => Promise<Service>;
  /** Reports a mistake on the terminal. */
  readonly say: (line: string) => void;
  readonly clock: Clock;
  readonly log: Log;
}

export type CreateReloader = typeof createReloader;

/** Watches the folder from now on, so that no change after the first reading is missed. */
export function createReloader<Service extends Replacement>(options: ReloaderOptions<Service>) {
  const { folder, database, forget, make, say, clock, log } = options;
  /** Lets a service answer requests, and returns the one before; undefined during the start. */
  let replaceBy: ((service: Service) => Service) | undefined;
  let hasChanged = false;
  let settling: Cancel | undefined;
  let underWay = Promise.resolve();
  /** The services that were replaced, until their calls have ended, and they are closed. */
  const replaced = new Set<{ readonly idle: Promise<unknown>; close(): Promise<unknown> }>();

  const follow = watchTools(folder.path, (name) => {
    if (!isOwn(name, database)) changed(); // or each reload would cause the next
  });

  /** Reloads the folder soon: one change at a time, in order. */
  function changed(): void {
    hasChanged = true;
    if (replaceBy === undefined) return;
    const replace = replaceBy;
    settling?.();
    settling = clock.after(SETTLE_MS, () => {
      underWay = underWay.then(() => takeOver(replace)).catch(report);
    });
  }

  async function takeOver(replace: (service: Service) => Service): Promise<void> {
    follow();
    await forget(resolve(folder.path));
    const next = await make(await folder.read());
    await next.open();
    const before = replace(next);
    log.info('tools reloaded', { tools: Object.fromEntries(next.custom) });
    before.app.endStreams();
    const ending = { idle: before.app.idle(), close: once(() => before.close()) };
    replaced.add(ending);
    void ending.idle
      .then(ending.close)
      .catch((error) => log.error('internal error', { error }))
      .finally(() => replaced.delete(ending));
  }

  function report(error: unknown): void {
    const reason = reasonOf(error);
    log.warn('tools not reloaded', { reason });
    say(`${reason}\n  the tools stay as they were until the next change`);
  }

  return {
    /** Makes the first service. A mistake in a file leaves it without tools; anything else is thrown. */
    async makeFirst(): Promise<Service> {
      try {
        return await make(await folder.read());
      } catch (error) {
        const bare = await make([]); // throws as well unless the files are at fault
        report(error);
        return bare;
      }
    },
    /** Reloads at changes from now on, and once for those before. */
    begin(replace: (service: Service) => Service): void {
      replaceBy = replace;
      if (hasChanged) changed();
    },
    /** Resolves when the services that were replaced have ended their calls. */
    idle: () => Promise.all(Array.from(replaced, ({ idle }) => idle)),
    /** Closes those that aren't closed yet, whether or not their calls have ended. */
    close: () => Promise.all(Array.from(replaced, ({ close }) => close())),
  };
}

/** What the names of a database's files end in, behind that of its own. */
const DATABASE_PARTS: readonly string[] = ['', '-wal', '-shm', '-journal', '-owner'];

/** The development secret (users/dev-secret.ts), and what a shell is usually told to call the file with the log. */
const OTHER_OWN = /^jwt-secret(?:\.|$)|\.log$|^nohup\.out$/;

/** Returns whether the server itself writes a file of this name, which may be in the folder of the tools. */
function isOwn(name: string, database: DatabaseConfig): boolean {
  const file = database.mode === 'embedded' ? database.path : database.replicaFile;
  const isOfDatabase = file !== null && DATABASE_PARTS.some((part) => name === basename(file) + part);
  return isOfDatabase || OTHER_OWN.test(name);
}

/**
 * Calls `changed` at every change in the folder, with the name of the file, and whenever the folder appears, disappears or is
 * replaced, with no name. Returns a function that is called before the folder is read: it watches the one that is there then.
 */
function watchTools(folder: string, changed: (name: string) => void): () => void {
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
