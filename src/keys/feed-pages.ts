// Reads the change feed from a position on, page by page, and tells the caches what to drop. Each page also proves that the
// last change seen is still there. If it isn't, the database was put back to an earlier state, and everything is
// forgotten. When the feed is read, and what that proves, is up to feed.ts.

import { changesOf, FEED_PAGE_MAX, type FeedPage, isLost, type ReachedPosition } from '../ground/change-feed.ts';
import type { KeyStore } from './store.ts';

/** When the process is further behind than this, forgetting everything is quicker than reading the changes. */
const BEHIND_MAX = 10 * FEED_PAGE_MAX;

export interface FeedListener {
  /** A page that was read at a position, before what it says is told. */
  onPage?(asked: ReachedPosition, page: FeedPage): void;
  /** The records with these hashes may be different now, and the blocks of these owners. */
  onChanges?(keyHashes: readonly string[], owners: ReadonlySet<string>, changes: FeedPage['changes']): void;
  /** Anything may be different now. */
  onReset?(): void;
  /** A poll has ended; if it was complete, all that it has seen was told. */
  onPolled?(isComplete: boolean): void;
}

export function createFeedPages({ changesAfter }: Pick<KeyStore, 'changesAfter'>, withinMs: number) {
  const listeners: FeedListener[] = [];
  let position: ReachedPosition = { databaseId: '', seq: 0, mark: null };
  let holdsForeign = false;

  function forgetAll({ databaseId, newestSeq, newestMark }: FeedPage): void {
    position = { databaseId, seq: newestSeq, mark: newestMark };
    for (const listener of listeners) listener.onReset?.();
  }

  /** Tells a page at once. */
  function tell({ databaseId, changes }: FeedPage): void {
    const last = changes.at(-1);
    if (last === undefined) return;
    const { keyHashes, owners } = changesOf(changes.map(({ changed }) => changed));
    for (const listener of listeners) listener.onChanges?.(keyHashes, new Set(owners), changes);
    position = { databaseId, seq: last.seq, mark: last.mark };
  }

  return {
    subscribe: (listener: FeedListener) => void listeners.push(listener),
    /** Returns the position up to which all listeners have been told of changes. */
    get position(): ReachedPosition {
      return position;
    },
    /** Returns true while the database holds keys of another form, as the last page says. */
    get holdsForeign(): boolean {
      return holdsForeign;
    },
    /** Reads until there are no more changes. Throws what the store throws. */
    async readOn(): Promise<void> {
      for (;;) {
        const asked = position;
        const page = await changesAfter(asked, withinMs);
        for (const listener of listeners) listener.onPage?.(asked, page);
        holdsForeign = page.holdsForeign;
        const isFarBehind = page.prunedSeq > asked.seq || page.newestSeq - asked.seq > BEHIND_MAX;
        if (isLost(asked, page) || isFarBehind) return forgetAll(page);
        tell(page);
        if (page.changes.length < FEED_PAGE_MAX) return;
      }
    },
    polled(isComplete: boolean): void {
      for (const listener of listeners) listener.onPolled?.(isComplete);
    },
  };
}
