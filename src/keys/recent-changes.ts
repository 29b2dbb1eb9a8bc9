// The newest changes of the feed, in memory, for services that listen. Tells from a cursor what has changed since. A cursor
// names a change by its number and a code of its mark: after a restore by copying, numbers are given anew. What is older
// than this process is read from the store, once for all who ask. Who listens, and for how long, is api/changes.ts.

import { singleFlight } from '../ground/cache.ts';
import type { ChangeMark, FeedPage } from '../ground/change-feed.ts';
import type { Feed } from './feed.ts';
import { type Macs, markOf } from './marks.ts';
import { type Change, type Older, readOlder, type Since } from './older-changes.ts';
import type { KeyStore } from './store.ts';

/** Changes kept: with the rows of keys that change again and again, enough for a list of MARKS_MAX. */
const KEPT_MAX = 4000;
/** Marks of one list; whoever lacks more forgets all, which is quicker. */
export const MARKS_MAX = 1000;

/** Longer texts are no cursors. */
export const CURSOR_CHARS_MAX = 200;
const CURSOR = /^(\d{1,16})\.([0-9a-f]{16})$/;

/** What is known: the changes after `since`, oldest first. */
interface Known extends Older {
  readonly databaseId: string;
  /** Whether the store has been asked for what is older. */
  readonly isWhole: boolean;
}

/**
 * Where a cursor stands. `seen`: all that it stands for, with the changes since. `older` than what is in memory, which
 * `reach` changes. `too_old`: the store doesn't have them either. `not_seen`: it is ahead of this process, or of a
 * database that was lost; a poll decides. `unreadable`: no cursor.
 */
export type Standing =
  | { readonly is: 'seen'; readonly changes: readonly Change[] }
  | { readonly is: 'older' | 'too_old' | 'not_seen' | 'unreadable' };

const NOTHING: Standing = { is: 'seen', changes: [] };

export interface RecentChangesOptions {
  readonly feed: Pick<Feed, 'subscribe' | 'position' | 'queryTimeoutMs'>;
  readonly store: Pick<KeyStore, 'changesAfter'>;
}

export class RecentChanges {
  readonly #feed: RecentChangesOptions['feed'];
  /** Undefined until a service listens: others need no memory for it. */
  #known: Known | undefined;
  /** The last list that was made: all who listen from one cursor get the same. */
  #listed: { readonly macs: Macs; readonly changes: readonly Change[]; readonly marks: readonly string[] } | undefined;
  #current: { readonly macs: Macs; readonly change: Since; readonly cursor: string } | undefined;
  readonly #reading;

  constructor({ feed, store }: RecentChangesOptions) {
    this.#feed = feed;
    this.#reading = singleFlight(() => this.#readOlder(store));
    feed.subscribe({
      onChanges: (_keyHashes, _owners, changes) => this.#add(changes),
      onReset: () => {
        if (this.#known !== undefined) this.#known = this.#begin();
      },
    });
  }

  /** Returns where a cursor stands now. */
  standingOf(cursor: string, macs: Macs): Standing {
    if (cursor === this.currentCursor(macs)) return NOTHING;
    const [, digits, code] = CURSOR.exec(cursor) ?? [];
    if (digits === undefined || code === undefined) return { is: 'unreadable' };
    const seq = Number(digits);
    const { since, changes, isWhole } = this.#present;
    if (seq < since.seq) return { is: isWhole ? 'too_old' : 'older' };
    const at = seq === since.seq ? -1 : indexOf(changes, seq);
    const named = seq === since.seq ? since : changes[at];
    if (named !== undefined && named.mark === undefined) return { is: 'too_old' }; // it is kept no more
    if (named?.mark === undefined || codeOf(macs, named.seq, named.mark) !== code) return { is: 'not_seen' };
    return { is: 'seen', changes: changes.slice(at + 1) };
  }

  /** Reads what a cursor stands for from the store, if it is older than this process. Throws a StoreOutage. */
  async reach(cursor: string, macs: Macs): Promise<void> {
    if (this.standingOf(cursor, macs).is === 'older') await this.#reading.run();
  }

  /** Returns the cursor of all that was seen: the same text in each process that has seen as much. */
  currentCursor(macs: Macs): string {
    const change = this.#newest;
    if (this.#current?.change !== change || this.#current.macs !== macs) {
      this.#current = { macs, change, cursor: `${change.seq}.${codeOf(macs, change.seq, change.mark ?? null)}` };
    }
    return this.#current.cursor;
  }

  /** Returns the marks of these changes, each once; null: there are more than MARKS_MAX. */
  marksOf(changes: readonly Change[], macs: Macs): readonly string[] | null {
    if (this.#listed?.macs !== macs || !isSameList(this.#listed.changes, changes)) {
      const distinct = new Set(changes.map(({ changed }) => changed));
      if (distinct.size > MARKS_MAX) return null;
      this.#listed = { macs, changes, marks: [...distinct].map((changed) => markOf(macs, changed)) };
    }
    return this.#listed.marks;
  }

  /** Returns the number of the newest change that was seen. */
  get seq(): number {
    return this.#newest.seq;
  }

  get #newest(): Since {
    const { since, changes } = this.#present;
    return changes.at(-1) ?? since;
  }

  /** Returns what is known, which begins with the first question. */
  get #present(): Known {
    this.#known ??= this.#begin();
    return this.#known;
  }

  #begin(): Known {
    const { databaseId, seq, mark } = this.#feed.position;
    return { databaseId, since: { seq, mark }, changes: [], isWhole: false };
  }

  #add(changes: FeedPage['changes']): void {
    if (this.#known === undefined) return;
    this.#known = trim({ ...this.#known, changes: [...this.#known.changes, ...changes] });
  }

  async #readOlder(store: RecentChangesOptions['store']): Promise<void> {
    const { databaseId, since } = this.#present;
    const page = (seq: number) => store.changesAfter({ databaseId, seq, mark: null }, this.#feed.queryTimeoutMs);
    const older = await readOlder(page, { databaseId, since, count: KEPT_MAX });
    // Meanwhile the database may have been put back, or so much has changed that this is too old.
    const now = this.#present;
    if (now.since !== since || older === null) return;
    this.#known = trim({ ...now, ...older, changes: [...older.changes, ...now.changes], isWhole: true });
  }
}

const codeOf = (macs: Macs, seq: number, mark: ChangeMark): string =>
  macs.of('cursor', `${macs.databaseId} ${seq} ${mark ?? ''}`);

/** Drops the oldest changes beyond KEPT_MAX. */
function trim(known: Known): Known {
  const over = known.changes.length - KEPT_MAX;
  const since = known.changes[over - 1];
  return since === undefined ? known : { ...known, since, changes: known.changes.slice(over), isWhole: true };
}

const isSameList = (a: readonly Change[], b: readonly Change[]): boolean =>
  a.length === b.length && a[0] === b[0] && a.at(-1) === b.at(-1);

/** Returns the place of a number among changes that are in its order; -1: it is not there. */
function indexOf(changes: readonly Change[], seq: number): number {
  let [low, high] = [0, changes.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = changes[middle]?.seq ?? seq;
    if (found === seq) return middle;
    if (found < seq) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
