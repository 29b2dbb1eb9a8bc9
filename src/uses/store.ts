// The store of uses, as counting needs it. src/store implements the interface.

/** When counts are asked for, and what those of whom the database says nothing have by default. */
export interface CountsAsOf {
  readonly nowMs: number;
  /** What applies to keys that have no limit or quota of their own. */
  readonly key: DefaultCounts;
  /** What applies to owners that have no limit or quota of their own; null: they are not counted. */
  readonly owner: DefaultCounts | null;
}

export interface DefaultCounts {
  /** Seconds; 0: no limit. */
  readonly windowS: number;
  /** Whether the quota is of a month. */
  readonly hasMonth: boolean;
}

/** Units by all processes: in the window of the limit in force, today, and this month with today if a quota needs it. */
export interface KeyCounts {
  readonly window: number;
  readonly day: number;
  readonly month: number;
}

/** Who has counts: a key by its id, or an owner by name. The other is null. */
export type HolderId = readonly [keyId: string, owner: null] | readonly [keyId: null, owner: string];

/**
 * `added` units in window `first`; what is asked for is the sum of the windows up to `last`. `usedAtMs`: of a day, the
 * last use in it; null: none.
 */
export type WindowUses = readonly [
  ...holder: HolderId,
  windowS: number,
  first: number,
  last: number,
  added: number,
  usedAtMs: number | null,
];

/** What a process exchanges at once. */
export interface ExchangedUses {
  /** The process, by a random text. */
  readonly instance: string;
  /** Grows with each exchange of the process. One that was carried out before adds nothing, however late it comes. */
  readonly number: number;
  readonly windows: readonly WindowUses[];
}

export interface UsesStore {
  /** Raises when keys were last used, and adds units, in one transaction; a power cut may undo that. */
  addUses(uses: ExchangedUses): Promise<void>;
  /** Returns what each window has now, in their order; undefined: the holder is gone. */
  totalsOf(windows: readonly WindowUses[]): Promise<readonly (number | undefined)[]>;
  /** Returns the days from `firstDay` on in which these keys were used, by key, with the units of each day. */
  usesByDay(keyIds: readonly string[], firstDay: number): Promise<ReadonlyMap<string, ReadonlyMap<number, number>>>;
  /** The most holders of one exchange, which holds up nothing else for more than a few milliseconds. */
  readonly usesPerWrite: number;
}
