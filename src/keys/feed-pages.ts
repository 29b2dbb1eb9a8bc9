// Reads the change feed page by page from its last position, and tells the caches what to drop. Each page also proves
// that the last change seen still exists. If it doesn't, the database was restored to an earlier state, and everything
// is dropped. feed.ts decides when to read, and what that proves.

import { changesOf, FEED_PAGE_MAX, type FeedPage, isLost, type ReachedPosition } from '../ground/change-feed.ts';
import type { KeyStore } from './store.ts';

/** When further behind than this, dropping everything is quicker than reading the changes. */
const BEHIND_MAX = 10 * FEED_PAGE_MAX;

export interface FeedListener {
  /** A page was read after `asked`; its changes are reported next. */
  onPage?(asked: ReachedPosition, page: FeedPage): void;
  /** The records with these hashes may have changed, and the owners' blocks or settings. */
  onChanges?(keyHashes: readonly string[], owners: ReadonlySet<string>, changes: FeedPage['changes']): void;
  /** Anything may have changed. */
  onReset?(): void;
}

export function createFeedPages({ changesAfter }: Pick<KeyStore, 'changesAfter'>, withinMs: number) {
  const listeners: FeedListener[] = [];
  let position: ReachedPosition = { databaseId: '', seq: 0, mark: null };
  let holdsForeign = false;
  let holdsRules = false;

  function forgetAll({ databaseId, newestSeq, newestMark }: FeedPage): void {
    position = { databaseId, seq: newestSeq, mark: newestMark };
    for (const listener of listeners) listener.onReset?.();
  }

  /** Reports a page to all listeners, synchronously. */
  function tell({ databaseId, changes }: FeedPage): void {
    const last = changes.at(-1);
    if (last === undefined) return;
    const { keyHashes, owners } = changesOf(changes.map(({ changed }) => changed));
    for (const listener of listeners) listener.onChanges?.(keyHashes, new Set(owners), changes);
    position = { databaseId, seq: last.seq, mark: last.mark };
  }

  return {
    subscribe: (listener: FeedListener) => void listeners.push(listener),
    /** Returns the position up to which listeners know all changes. */
    get position(): ReachedPosition {
      return position;
    },
    /** Returns whether the database holds keys of another form, according to the last page. */
    get holdsForeign(): boolean {
      return holdsForeign;
    },
    /** Returns whether the database holds rules, according to the last page. */
    get holdsRules(): boolean {
      return holdsRules;
    },
    /** Reads until there are no more changes. Throws what the store throws. */
    async readOn(): Promise<void> {
      for (;;) {
        const asked = position;
        const page = await changesAfter(asked, withinMs);
        for (const listener of listeners) listener.onPage?.(asked, page);
        holdsForeign = page.holdsForeign;
        holdsRules = page.holdsRules;
        const isFarBehind = page.prunedSeq > asked.seq || page.newestSeq - asked.seq > BEHIND_MAX;
        if (isLost(asked, page) || isFarBehind) return forgetAll(page);
        tell(page);
        if (page.changes.length < FEED_PAGE_MAX) return;
      }
    },
  };
}
