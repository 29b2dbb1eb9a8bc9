// A feed of changes that is polled: what one poll of it says, and what that proves. Pure.

/** A reader at a position has seen every change of this database up to and including `seq`. */
export interface FeedPosition {
  /** Made once, with the database; a different one means the database was replaced. */
  readonly databaseId: string;
  readonly seq: number;
}

/** Returns whether what was read at `position` has all that a reader at `asked` has seen. */
export const hasReached = (position: FeedPosition, asked: FeedPosition): boolean =>
  position.databaseId === asked.databaseId && position.seq >= asked.seq;

/** Tells a change from one that got the same seq after the database was put back. Null: no such change, or pruned. */
export type ChangeMark = string | null;

/** A position, and the change that it was reached with. */
export interface ReachedPosition extends FeedPosition {
  readonly mark: ChangeMark;
}

export interface FeedPage {
  readonly databaseId: string;
  /** Changes up to and including this seq are no longer listed. */
  readonly prunedSeq: number;
  /** The mark of the change with the seq asked for. */
  readonly mark: ChangeMark;
  readonly newestSeq: number;
  readonly newestMark: ChangeMark;
  /** Whether there are keys of another form, now. */
  readonly holdsForeign: boolean;
  /** Changes after the seq asked for, oldest first, at most `FEED_PAGE_MAX`. */
  readonly changes: readonly { readonly seq: number; readonly changed: string; readonly mark: ChangeMark }[];
}

/**
 * Returns true when the page, asked for at `reached`, shows that the last change seen is gone although it was not
 * pruned: the database was replaced, or put back to an earlier state. Changes may have come since: the newest seq
 * proves nothing.
 */
export const isLost = (reached: ReachedPosition, { databaseId, prunedSeq, mark }: FeedPage): boolean =>
  databaseId !== reached.databaseId || (prunedSeq < reached.seq && (mark === null || mark !== reached.mark));

/** Changes fetched by one poll; a full page is followed by another poll at once. */
export const FEED_PAGE_MAX = 500;

/** Prefix of owners in the feed (db/README.md, changes). */
const OWNER = 'owner:';

/** Returns what a page's changes name: hashes of secrets, and owners. */
export function changesOf(changed: readonly string[]) {
  const keyHashes: string[] = [];
  const owners: string[] = [];
  for (const one of changed) {
    if (one.startsWith(OWNER)) owners.push(one.slice(OWNER.length));
    else keyHashes.push(one);
  }
  return { keyHashes, owners };
}
