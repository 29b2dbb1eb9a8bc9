// Errors that nothing handles: a rejected promise that nothing awaits, a throw in a timer or listener. Nearly always a
// tool left them whose call is over. They are logged, and the server goes on, unless its own code threw.

import { join, resolve } from 'node:path';
import type { Log } from '../log/log.ts';

/** A promise was rejected, or a function that the runtime called threw. */
export type Stray = 'rejection' | 'exception';

export interface StrayErrorOptions {
  readonly log: Log;
  /** The names of what each tool file of the operator offers; empty until all are loaded. */
  readonly own: () => ReadonlyMap<string, readonly string[]>;
  /** Shuts the server down: what its own code left undone may have broken anything. */
  stop(): void;
}

/** The folder of the server's own code: of the source, the package, or the executable. */
const OWN_CODE = join(import.meta.dirname, '..', '/');

/** A place in a stack: on Bun a path, on Deno a file URL. A path may have spaces and parentheses. */
const PLACE = /(?:\(|\bat |\basync )(\/.+|file:\/\/.+):\d+:\d+\)?$/gm;

/**
 * A rejection stops nothing: whoever awaits the promise has been told. An exception stops the server if its stack holds
 * only the server's own code and that of packages.
 */
export function createStrayErrors({ log, own, stop }: StrayErrorOptions): (error: unknown, stray: Stray) => void {
  return (error, stray) => {
    const places = placesOf(error);
    const from = [...own()].find(([file]) => places.includes(resolve(file)));
    log.error('internal error', { ...(from && { file: from[0], offers: from[1] }), stray, error });
    if (stray === 'exception' && from === undefined && isOurs(places)) stop();
  };
}

function placesOf(error: unknown): readonly string[] {
  const { stack }: { stack?: unknown } = Object(error);
  return typeof stack === 'string' ? [...stack.matchAll(PLACE)].map(([, place = '']) => pathOf(place)) : [];
}

const pathOf = (place: string): string => (place.startsWith('/') ? place : decodeURIComponent(new URL(place).pathname));

const isOurs = (places: readonly string[]): boolean =>
  places.some((path) => path.startsWith(OWN_CODE)) &&
  places.every((path) => path.startsWith(OWN_CODE) || path.includes('/node_modules/'));
