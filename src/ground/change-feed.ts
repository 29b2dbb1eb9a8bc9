// Defines the pages of a polled change feed, and what a page proves about a reader's position. Pure.

/** A reader at this position has seen every change of this database up to and including `seq`. */
export interface FeedPosition {
  /** Made once, with the database; a different one means that the database was replaced. */
  readonly databaseId: string;
  readonly seq: number;
}

/** Returns whether what was read at `position` includes all that a reader at `asked` has seen. */
export const hasReached = (position: FeedPosition, asked: FeedPosition): boolean =>
  position.databaseId === asked.databaseId && position.seq >= asked.seq;

/** Distinguishes changes that got the same seq before and after a restore. Null: no such change, or pruned. */
export type ChangeMark = string | null;

/** A position, with the mark of its change. */
export interface ReachedPosition extends FeedPosition {
  readonly mark: ChangeMark;
}

export interface FeedPage {
  readonly databaseId: string;
  /** Changes up to and including this seq are no longer listed. */
  readonly prunedSeq: number;
  /** The mark of the change at the requested seq. */
  readonly mark: ChangeMark;
  readonly newestSeq: number;
  readonly newestMark: ChangeMark;
  /** Whether there are keys of another form now. */
  readonly holdsForeign: boolean;
  /** Whether there are rules. */
  readonly holdsRules: boolean;
  /** Changes after the requested seq, oldest first, at most `FEED_PAGE_MAX`. */
  readonly changes: readonly { readonly seq: number; readonly changed: string; readonly mark: ChangeMark }[];
}

/**
 * Returns whether the page after `reached` shows that the last change seen is gone, though not pruned: the database was
 * replaced, or restored to an earlier state. The newest seq proves nothing, since changes may have come after that.
 */
export const isLost = (reached: ReachedPosition, { databaseId, prunedSeq, mark }: FeedPage): boolean =>
  databaseId !== reached.databaseId || (prunedSeq < reached.seq && (mark === null || mark !== reached.mark));

/** Changes per page; a full page is followed by another at once. */
export const FEED_PAGE_MAX = 500;

/** Prefix of owners in the feed (db/README.md, changes). */
const OWNER = 'owner:';

/** Returns the name of a change of an owner's keys. */
export const ownerChange = (owner: string): string => OWNER + owner;

/** The word by which the feed announces that rules have changed (db/0002_rules.sql). */
export const RULES_CHANGED = 'rules';

/** Returns the hashes that changes name, of secrets and rules, with RULES_CHANGED among them, and the owners. */
export function changesOf(changed: readonly string[]) {
  const keyHashes: string[] = [];
  const owners: string[] = [];
  for (const one of changed) {
    if (one.startsWith(OWNER)) owners.push(one.slice(OWNER.length));
    else keyHashes.push(one);
  }
  return { keyHashes, owners };
}
