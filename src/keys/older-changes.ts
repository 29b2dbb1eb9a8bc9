// Reads changes that came before those a process has in memory, page by page, and proves that they are of the same history.

import type { ChangeMark, FeedPage } from '../ground/change-feed.ts';

export type Change = FeedPage['changes'][number];

/** A change after which all is known; without a mark it can't be told from another of its number. */
export interface Since {
  readonly seq: number;
  readonly mark: ChangeMark | undefined;
}

export interface Older {
  readonly since: Since;
  readonly changes: readonly Change[];
}

/** Reads the page after a number. Throws a StoreOutage. */
type ReadPage = (seq: number) => Promise<FeedPage>;

/** Returns up to `count` changes before `since`, and that one; null: what was read is another history. */
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
  // The newest row is kept although it is listed no more: then it is all that is known.
  return joint?.seq === since.seq && joint.mark === since.mark ? { since: begin, changes } : { since, changes: [] };
}

const lastOf = ({ changes }: FeedPage): number | undefined => changes.at(-1)?.seq;

/** Returns the change after which the page has all. Before the first one there is none, which has no mark. */
function beginOf({ prunedSeq, mark }: FeedPage, from: number): Since {
  if (prunedSeq > from) return { seq: prunedSeq, mark: undefined };
  return { seq: from, mark: mark ?? (from === 0 ? null : undefined) };
}
