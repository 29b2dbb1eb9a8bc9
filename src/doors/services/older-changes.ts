// Reads changes older than those a process has in memory, page by page, and proves that they share its history.

import type { ChangeMark, FeedPage } from '../../ground/change-feed.ts';

export type Change = FeedPage['changes'][number];

/** A change after which everything is known; without a mark, another with its number looks the same. */
export interface Since {
  readonly seq: number;
  readonly mark: ChangeMark | undefined;
}

export interface Older {
  readonly since: Since;
  readonly changes: readonly Change[];
}

/** Reads the page after a sequence number. Throws a StoreOutage. */
type ReadPage = (seq: number) => Promise<FeedPage>;

/** Returns up to `count` changes up to and including `since`; null: the database has another history. */
export async function readOlder(
  readPage: ReadPage,
  { databaseId, since, count }: { readonly databaseId: string; readonly since: Since; readonly count: number },
): Promise<Older | null> {
  const from = Math.max(0, since.seq - count);
  const first = await readPage(from);
  const pages = [first];
  for (let last = lastOf(first); last !== undefined && last < since.seq; ) {
    const page = await readPage(last);
    pages.push(page);
    last = lastOf(page);
  }
  if (pages.some((page) => page.databaseId !== databaseId)) return null;
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
