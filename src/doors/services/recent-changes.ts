// Keeps the newest changes of the feed in memory, and tells services what has changed since a cursor. A cursor names a
// change by its number and a MAC of its mark, because a restore by copying reuses numbers. Older changes are read from
// the store, once for all who ask.

import { memoize, singleFlight } from '../../ground/cache.ts';
import type { ChangeMark, FeedPage } from '../../ground/change-feed.ts';
import type { Feed } from '../../keys/feed.ts';
import type { KeyStore } from '../../keys/store.ts';
import type { Macs } from './marks.ts';
import type { ServicesOptions } from './service.ts';

/** Changes kept: enough for a list of MARKS_MAX even though some keys change again and again. */
const KEPT_MAX = 4000;
/** The most marks in one list; a service that lacks more drops its whole cache, which is quicker. */
const MARKS_MAX = 1000;

/** Longer texts are no cursors. */
export const CURSOR_CHARS_MAX = 200;
const CURSOR = /^(\d{1,16})\.([0-9a-f]{16})$/;

type Change = FeedPage['changes'][number];

/** A change after which everything is known; without a mark, another with its number looks the same. */
interface Since {
  readonly seq: number;
  readonly mark: ChangeMark | undefined;
}

/** All changes after `since`, oldest first. */
interface ChangesSince {
  readonly since: Since;
  readonly changes: readonly Change[];
}

interface Known extends ChangesSince {
  /** Whether no older changes are to be read from the store: they were read, or would be too many. */
  readonly isWhole: boolean;
}

/**
 * The state of a cursor. `known`: in memory, with the changes since. `older`: not in memory; `readBackTo` reads them.
 * `gone`: no longer kept, or no cursor. `unknown`: ahead of this process, of a database that was lost, or of a change that was
 * deleted; a poll decides.
 */
type CursorState =
  | { readonly is: 'known'; readonly changes: readonly Change[] }
  | { readonly is: 'older' | 'gone' | 'unknown' };

const NOTHING: CursorState = { is: 'known', changes: [] };

export class RecentChanges {
  readonly #feed: Feed;
  /** Undefined until a service listens, so that others need no memory for it. */
  #known: Known | undefined;
  /**
   * The marks of what has changed lately, once for all lists: each service may have a cursor of its own, and on Deno a mark
   * takes 15 µs.
   */
  #marks: { readonly macs: Macs; readonly markOf: (changed: string) => string } | undefined;
  readonly #reading;

  constructor({ feed, store }: ServicesOptions) {
    this.#feed = feed;
    this.#reading = singleFlight(() => this.#readOlder(store));
    feed.subscribe({
      onChanges: (_keyHashes, _owners, changes) => this.#add(changes),
      onReset: () => {
        if (this.#known !== undefined) this.#known = this.#begin();
      },
    });
  }

  stateOf(cursor: string, macs: Macs): CursorState {
    if (cursor === this.currentCursor(macs)) return NOTHING;
    const [, digits, mac] = CURSOR.exec(cursor) ?? [];
    if (digits === undefined || mac === undefined) return { is: 'gone' };
    const seq = Number(digits);
    const { since, changes, isWhole } = this.#present;
    if (seq < since.seq) return { is: isWhole ? 'gone' : 'older' };
    const at = changes.findLastIndex((change) => change.seq === seq); // from the end: services lack few
    const named = seq === since.seq ? since : changes[at];
    if (named?.mark === undefined || macOf(macs, named.seq, named.mark) !== mac) return { is: 'unknown' };
    return { is: 'known', changes: changes.slice(at + 1) };
  }

  /** Reads older changes from the store if the cursor is older than those in memory. Throws a StoreOutage. */
  async readBackTo(cursor: string, macs: Macs): Promise<void> {
    if (this.stateOf(cursor, macs).is === 'older') await this.#reading.run();
  }

  /** Returns the cursor of the newest change seen: the same text in each process that has seen as much. */
  currentCursor(macs: Macs): string {
    const { since, changes } = this.#present;
    const { seq, mark } = changes.at(-1) ?? since;
    return `${seq}.${macOf(macs, seq, mark ?? null)}`;
  }

  /** Returns the marks of what has changed since a cursor; null: anything may have. */
  marksSince(cursor: string, macs: Macs): readonly string[] | null {
    const state = this.stateOf(cursor, macs);
    return state.is === 'known' ? this.#marksOf(state.changes, macs) : null;
  }

  /** Returns the marks of these changes without duplicates; null: more than MARKS_MAX. */
  #marksOf(changes: readonly Change[], macs: Macs): readonly string[] | null {
    const distinct = new Set(changes.map(({ changed }) => changed));
    if (distinct.size > MARKS_MAX) return null;
    if (this.#marks?.macs !== macs)
      this.#marks = { macs, markOf: memoize((changed) => macs.of('mark', changed), KEPT_MAX) };
    return [...distinct].map(this.#marks.markOf);
  }

  /** Returns what is in memory, starting from the feed's position on first use. */
  get #present(): Known {
    this.#known ??= this.#begin();
    return this.#known;
  }

  #begin(): Known {
    const { seq, mark } = this.#feed.position;
    return { since: { seq, mark }, changes: [], isWhole: false };
  }

  #add(changes: readonly Change[]): void {
    if (this.#known === undefined) return;
    this.#known = trim({ ...this.#known, changes: [...this.#known.changes, ...changes] });
  }

  async #readOlder(store: KeyStore): Promise<void> {
    const { since } = this.#present;
    const page = (seq: number) => store.changesAfter(seq, this.#feed.queryTimeoutMs);
    const older = await readOlder(page, since);
    const now = this.#present;
    if (now.since !== since) return; // meanwhile the feed was reset, or so much has changed that this is too old
    this.#known = trim({ ...now, ...older, changes: [...older.changes, ...now.changes], isWhole: true });
  }
}

const macOf = (macs: Macs, seq: number, mark: ChangeMark): string =>
  macs.of('cursor', `${macs.databaseId} ${seq} ${mark ?? ''}`);

/** Drops the oldest changes beyond KEPT_MAX. */
function trim(known: Known): Known {
  const over = known.changes.length - KEPT_MAX;
  const since = known.changes[over - 1];
  return since === undefined ? known : { ...known, since, changes: known.changes.slice(over), isWhole: true };
}

// Changes older than those in memory, read page by page.

/** Reads the page after a sequence number. Throws a StoreOutage. */
type ReadPage = (seq: number) => Promise<FeedPage>;

/** Returns up to KEPT_MAX changes up to and including `since`. */
async function readOlder(readPage: ReadPage, since: Since): Promise<ChangesSince> {
  const from = Math.max(0, since.seq - KEPT_MAX);
  const first = await readPage(from);
  const pages = [first];
  for (let last = lastOf(first); last !== undefined && last < since.seq; ) {
    const page = await readPage(last);
    pages.push(page);
    last = lastOf(page);
  }
  const begin = beginOf(first, from);
  const changes = pages.flatMap((page) => page.changes).filter(({ seq }) => seq > begin.seq && seq <= since.seq);
  const joint = changes.at(-1);
  // The newest row stays in the feed although it is no longer listed: then nothing older is known.
  return joint?.seq === since.seq && joint.mark === since.mark ? { since: begin, changes } : { since, changes: [] };
}

const lastOf = ({ changes }: FeedPage): number | undefined => changes.at(-1)?.seq;

/** Returns the change after which the page is complete. The beginning of the feed has no mark. */
function beginOf({ prunedSeq, mark }: FeedPage, from: number): Since {
  if (prunedSeq > from) return { seq: prunedSeq, mark: undefined };
  return { seq: from, mark: mark ?? (from === 0 ? null : undefined) };
}
