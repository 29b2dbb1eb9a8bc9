// The store of uses, as counting needs it. src/store implements the interface.

import type { StoreResult } from '../problem.ts';

/** Processes are told apart by random numbers below this. */
export const INSTANCES = 2 ** 36;

export interface CountsAsOf {
  /** The process whose counts are its own. */
  readonly instance: number;
  readonly nowMs: number;
  /** The window of keys that have no limit of their own; 0: none. */
  readonly windowS: number;
}

/** Uses by one process on a day, and all others together. */
export interface Shares {
  readonly own: number;
  readonly others: number;
}

export interface KeyCounts {
  /** In the window of the limit in force. */
  readonly window: Shares;
  readonly day: Shares;
  /** This month's, but for the day's. */
  readonly before: number;
}

export type LastUse = readonly [keyId: string, usedAtMs: number];

/** The uses of a key by a process on a day (UTC), in a window, which only grow. */
export type Count = readonly [keyId: string, windowS: number, number: number, day: number, uses: number];

/** A window of a key, and the day of one's own uses; with the first day of the month, those of the days before too. */
export type CountedWindow = readonly [
  keyId: string,
  windowS: number,
  number: number,
  day: number,
  firstDay: number | null,
];

/** The uses of a key in a day: of all processes, and of the one that asks. */
export type DayUses = readonly [day: number, uses: number, own: number];

/** Counts only grow, so every write is harmless when repeated, also late. */
export interface UsesStore {
  /** Raises when keys were last used, never lowers it; a power cut may undo that. At most `usesPerWrite` keys. */
  recordLastUses(uses: readonly LastUse[]): StoreResult<void>;
  /** As `recordLastUses`, the counts of a process. */
  recordCounts(instance: number, counts: readonly Count[]): StoreResult<void>;
  /** What each of these windows has counted, in their order; null: the key is gone. `before` is 0 unless asked for. */
  countsOf(
    instance: number,
    windows: readonly CountedWindow[],
  ): StoreResult<readonly ((Shares & { readonly before: number }) | null)[]>;
  /** The days from `firstDay` on in which these keys were used, by key. */
  usesByDay(
    keyIds: readonly string[],
    firstDay: number,
    instance: number,
  ): StoreResult<ReadonlyMap<string, readonly DayUses[]>>;
  /** The most uses that one write can take without holding up anything else for more than a few milliseconds. */
  readonly usesPerWrite: number;
}
