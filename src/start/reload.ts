// Takes over tool files that have changed while the server runs, for development: a service with the new tools takes the
// place of the one before at the same door. A mistake in a file leaves that one where it is.

import type { Cancel, Clock } from '../ground/runtime.ts';
import { reasonOf } from '../ground/text.ts';
import type { ToolFile } from '../tools/folder/tool-file.ts';
import type { Log } from '../watch/log.ts';
import type { Stoppable } from './stop.ts';

/** Editors write a file in several steps. */
const SETTLE_MS = 50;

/** What takes the place of another. */
export interface Replacement extends Pick<Stoppable, 'close'> {
  readonly app: Pick<Stoppable['app'], 'endStreams' | 'idle'>;
  /** The names of tools and prompts, by file. */
  readonly custom: ReadonlyMap<string, readonly string[]>;
  /** Opens its database. */
  open(): Promise<void>;
}

export interface ReloadOptions<Service extends Replacement> {
  /** Reads the tool files as they are now. */
  readonly read: () => Promise<readonly ToolFile[]>;
  /** Makes a service with them, whose database is not open yet. */
  readonly make: (files: readonly ToolFile[]) => Promise<Service>;
  /** Has requests answered by a service from now on, and returns the one before. */
  readonly replace: (service: Service) => Service;
  /** Says a mistake to whoever sits at the terminal. */
  readonly say: (line: string) => void;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Reload {
  /** Takes over the folder soon: one change at a time, the last one last. */
  soon(): void;
}

type FirstOptions<Service> = Pick<ReloadOptions<Service & Replacement>, 'read' | 'make' | 'say' | 'log'>;

/** Resolves with the first service. A mistake in a file leaves it without tools; anything else is thrown. */
export async function makeFirst<Service>(options: FirstOptions<Service>): Promise<Service> {
  const { read, make } = options;
  try {
    return await make(await read());
  } catch (error) {
    const bare = await make([]); // throws too unless the files are at fault
    tell(error, options);
    return bare;
  }
}

function tell(error: unknown, { say, log }: Pick<FirstOptions<Replacement>, 'say' | 'log'>): void {
  const reason = reasonOf(error);
  log.warn('tools not reloaded', { reason });
  say(`${reason}\n  the tools stay as they were until the next change`);
}

export function createReload<Service extends Replacement>(options: ReloadOptions<Service>): Reload {
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
      tell(error, options);
    }
  }

  return {
    soon(): void {
      settling?.();
      settling = clock.after(SETTLE_MS, () => {
        underWay = underWay.then(now);
      });
    },
  };
}
