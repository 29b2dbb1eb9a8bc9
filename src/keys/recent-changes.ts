// The newest changes of the feed, in memory, for services that listen. Tells from a cursor what has changed since. A cursor
// names a change by its number and a code of its mark: after a restore by copying, numbers are given anew. What is older
// than this process is read from the store, once for all who ask. Who listens, and for how long, is api/changes.ts.

import { singleFlight } from '../ground/cache.ts';
import type { ChangeMark, FeedPage } from '../ground/change-feed.ts';
import type { Feed } from './feed.ts';
import { type Macs, markOf } from './marks.ts';
import type { KeyStore } from './store.ts';

/** Changes kept: with the rows of keys that change again and again, enough for a list of MARKS_MAX. */
const KEPT_MAX = 4000;
/** Marks of one list; whoever lacks more forgets all, which is quicker. */
export const MARKS_MAX = 1000;

/** Longer texts are no cursors. */
export const CURSOR_CHARS_MAX = 200;
const CURSOR = /^(\d{1,16})\.([0-9a-f]{16})$/;

type Change = FeedPage['changes'][number];

/** What is known: the changes after `since`, oldest first. Undefined: the mark of that one is not known. */
interface Known {
  readonly databaseId: string;
  since: { readonly seq: number; readonly mark: ChangeMark | undefined };
  changes: Change[];
  /** Whether the store has been asked for what is older. */
  isWhole: boolean;
}

/**
 * Where a cursor stands. `seen`: all that it stands for, with the changes since. `older` than what is in memory, which
 * `readOlder` changes. `too_old`: the store doesn't have them either. `not_seen`: it is ahead of this process, or of
 * a database that was lost; a poll decides. `unreadable`: no cursor.
 */
export type Standing =
  | { readonly is: 'seen'; readonly changes: readonly Change[] }
  | { readonly is: 'older' | 'too_old' | 'not_seen' | 'unreadable' };

const NOTHING: Standing = { is: 'seen', changes: [] };

export type RecentChanges = ReturnType<typeof createRecentChanges>;

export function createRecentChanges({
  feed,
  store,
}: {
  readonly feed: Pick<Feed, 'subscribe' | 'position' | 'queryTimeoutMs'>;
  readonly store: Pick<KeyStore, 'changesAfter'>;
}) {
  /** Undefined until a service listens: others need no memory for it. */
  let known: Known | undefined;
  /** The last list that was made: all who listen from one cursor get the same. */
  let listed:
    | { readonly macs: Macs; readonly changes: readonly Change[]; readonly marks: readonly string[] }
    | undefined;
  let current: { readonly macs: Macs; readonly change: Change | Known['since']; readonly cursor: string } | undefined;

  feed.subscribe({
    onChanges(_keyHashes, _owners, changes) {
      if (known === undefined) return;
      known.changes = [...known.changes, ...changes];
      trim(known);
    },
    onReset() {
      if (known !== undefined) known = begin();
    },
  });

  const begin = (): Known => {
    const { databaseId, seq, mark } = feed.position;
    return { databaseId, since: { seq, mark }, changes: [], isWhole: false };
  };

  /** What is known, which begins with the first question. */
  const present = (): Known => {
    known ??= begin();
    return known;
  };

  function standingOf(cursor: string, macs: Macs): Standing {
    const now = present();
    if (cursor === currentCursor(macs)) return NOTHING;
    const [, digits, code] = CURSOR.exec(cursor) ?? [];
    if (digits === undefined || code === undefined) return { is: 'unreadable' };
    const seq = Number(digits);
    const { since, changes } = now;
    if (seq < since.seq) return { is: now.isWhole ? 'too_old' : 'older' };
    const at = seq === since.seq ? -1 : indexOf(changes, seq);
    const named = seq === since.seq ? since : changes[at];
    if (named?.mark === undefined || codeOf(macs, named.seq, named.mark) !== code) return { is: 'not_seen' };
    return { is: 'seen', changes: changes.slice(at + 1) };
  }

  /** The cursor of all that this process has seen: the same text in each process that has seen as much. */
  function currentCursor(macs: Macs): string {
    const { since, changes } = present();
    const change = changes.at(-1) ?? since;
    if (current?.change !== change || current.macs !== macs) {
      current = { macs, change, cursor: `${change.seq}.${codeOf(macs, change.seq, change.mark ?? null)}` };
    }
    return current.cursor;
  }

  /** The marks of these changes, each once; null: there are more than MARKS_MAX. */
  function marksOf(changes: readonly Change[], macs: Macs): readonly string[] | null {
    if (listed?.macs !== macs || !isSameList(listed.changes, changes)) {
      const distinct = new Set(changes.map(({ changed }) => changed));
      if (distinct.size > MARKS_MAX) return null;
      listed = { macs, changes, marks: [...distinct].map((changed) => markOf(macs, changed)) };
    }
    return listed.marks;
  }

  /** Reads from the store what is older than what is in memory. Throws a StoreOutage if that fails. */
  async function readOlderOnce(): Promise<void> {
    const now = present();
    const { since } = now;
    const older = await readBefore(now);
    // Meanwhile the database may have been put back, or so much has changed that this is too old.
    if (known !== now || now.since !== since || older === null) return;
    now.since = older.since;
    now.changes = [...older.changes, ...now.changes];
    now.isWhole = true;
    trim(now);
  }

  /** Null: what was read is another history than the one in memory. */
  async function readBefore({ databaseId, since }: Known): Promise<Pick<Known, 'since' | 'changes'> | null> {
    const from = Math.max(0, since.seq - KEPT_MAX);
    const changes: Change[] = [];
    let first: Known['since'] = { seq: from, mark: from === 0 ? null : undefined };
    for (let after = from; after < since.seq; ) {
      const page = await store.changesAfter({ databaseId, seq: after, mark: null }, feed.queryTimeoutMs);
      if (page.databaseId !== databaseId) return null;
      if (after === from && page.mark !== null) first = { seq: from, mark: page.mark };
      if (page.prunedSeq > after && after === from) first = { seq: page.prunedSeq, mark: undefined };
      changes.push(...page.changes.filter(({ seq }) => seq <= since.seq));
      const last = page.changes.at(-1);
      if (last === undefined) break;
      after = last.seq;
    }
    const joint = changes.at(-1);
    if (joint === undefined || joint.seq !== since.seq || joint.mark !== since.mark) return { since, changes: [] };
    const listedFrom = changes.findIndex(({ seq }) => seq > first.seq);
    // A row that is kept although it is listed no more, being the newest, is all that is known.
    return listedFrom === -1 ? { since, changes: [] } : { since: first, changes: changes.slice(listedFrom) };
  }

  const reading = singleFlight(readOlderOnce);

  return {
    standingOf,
    currentCursor,
    marksOf,
    readOlder: () => reading.run(),
    /** How far this process has seen. */
    get seq() {
      const { since, changes } = present();
      return (changes.at(-1) ?? since).seq;
    },
  };
}

const codeOf = (macs: Macs, seq: number, mark: ChangeMark): string =>
  macs.of('cursor', `${macs.databaseId} ${seq} ${mark ?? ''}`);

function trim(known: Known): void {
  const over = known.changes.length - KEPT_MAX;
  const last = known.changes[over - 1];
  if (last === undefined) return;
  known.since = last;
  known.changes = known.changes.slice(over);
  known.isWhole = true; // what is older is more than anybody is told
}

const isSameList = (a: readonly Change[], b: readonly Change[]): boolean =>
  a.length === b.length && a[0] === b[0] && a.at(-1) === b.at(-1);

/** The place of a number among changes that are in its order; -1: it is not there. */
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
