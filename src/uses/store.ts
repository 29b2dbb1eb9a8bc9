// Declares the store of counts and last uses. src/store implements the interface.

/** The time as of which counts are read, and the windows of holders without limits of their own. */
export interface CountsAsOf {
  readonly nowMs: number;
  /** Applies to keys without their own limit or quota. */
  readonly key: DefaultCounts;
  /** Applies to owners without their own limit or quota; null: they are not counted. */
  readonly owner: DefaultCounts | null;
  /** The number of this process's last exchange that was complete when the read began. */
  readonly exchanged: number;
}

export interface DefaultCounts {
  /** Seconds; 0: no limit. */
  readonly windowS: number;
  readonly hasMonth: boolean;
}

/** Units of all processes: in the window of the limit in force, today, and (if a quota needs it) this month with today. */
export interface KeyCounts {
  readonly window: number;
  readonly day: number;
  readonly month: number;
}

/** The id of a key, or the name of an owner; the other is null. */
export type HolderId = readonly [keyId: string, owner: null] | readonly [keyId: null, owner: string];

/**
 * Adds `added` units to window `first`, and asks for the sum of the windows up to `last`. `usedAtMs`: for a day, its last
 * use; null: none.
 */
export type WindowUses = readonly [
  ...holder: HolderId,
  windowS: number,
  first: number,
  last: number,
  added: number,
  usedAtMs: number | null,
];

/** What a process sends in one exchange. */
export interface ExchangedUses {
  /** A random id of the process. */
  readonly instance: string;
  /** Grows with each exchange of the process. A number that was applied before adds nothing, however late it comes. */
  readonly number: number;
  readonly windows: readonly WindowUses[];
}

/** Units by day (UTC), without days that have none. */
export type Days = ReadonlyMap<number, number>;

export interface UsedHolders {
  readonly keyIds?: readonly string[];
  readonly owners?: readonly string[];
  /** How many keys these owners have together. */
  readonly ownersKeys?: number;
}

/** Days by holder, as of one moment; none of a holder that isn't stored. */
export interface DaysByHolder {
  /** Keys, by their ids. */
  readonly key: ReadonlyMap<string, Days>;
  /** The sums over the keys that owners have now, by the owners' names. */
  readonly keys: ReadonlyMap<string, Days>;
  /** What counts for all keys of owners together since a limit was first in force, by the owners' names. */
  readonly owner: ReadonlyMap<string, Days>;
}

export interface UsesStore {
  /** Updates last uses and adds units, in one transaction; a power cut may undo that. */
  addUses(uses: ExchangedUses): Promise<void>;
  /** Returns the total of each window, in their order; undefined: the holder is gone. */
  totalsOf(windows: readonly WindowUses[]): Promise<readonly (number | undefined)[]>;
  /** Returns the units of each of the 31 days from `firstDay` on in which there were some. */
  usesByDay(of: UsedHolders, firstDay: number): Promise<DaysByHolder>;
  /** The most holders in one exchange, so that it delays nothing else for more than a few milliseconds. */
  readonly usesPerWrite: number;
}
