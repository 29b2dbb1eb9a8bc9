// The store of uses, as counting needs it. src/store implements the interface.

/** When counts are asked for; `windowS`: the window of keys that have no limit of their own, 0: none. */
export interface CountsAsOf {
  readonly nowMs: number;
  readonly windowS: number;
}

/** Uses by all processes: in the window of the limit in force, today, and this month with today. */
export interface KeyCounts {
  readonly window: number;
  readonly day: number;
  readonly month: number;
}

export type LastUse = readonly [keyId: string, usedAtMs: number];

/** `added` uses in window `first`; what is asked for is the sum of the windows up to `last`. */
export type WindowUses = readonly [keyId: string, windowS: number, first: number, last: number, added: number];

/** What a process exchanges at once. */
export interface ExchangedUses {
  /** The process, by a random text. */
  readonly instance: string;
  /** Grows with each exchange of the process. One that was carried out before adds nothing, however late it comes. */
  readonly number: number;
  readonly lastUses: readonly LastUse[];
  readonly windows: readonly WindowUses[];
}

export interface UsesStore {
  /** Raises when keys were last used, and adds uses, in one transaction; a power cut may undo that. */
  addUses(uses: ExchangedUses): Promise<void>;
  /** What each window has now, in their order; undefined: the key is gone. */
  totalsOf(windows: readonly WindowUses[]): Promise<readonly (number | undefined)[]>;
  /** The days from `firstDay` on in which these keys were used, by key, with the uses of each day. */
  usesByDay(keyIds: readonly string[], firstDay: number): Promise<ReadonlyMap<string, ReadonlyMap<number, number>>>;
  /** The most keys of one exchange, which holds up nothing else for more than a few milliseconds. */
  readonly usesPerWrite: number;
}
