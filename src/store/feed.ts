// The change feed: reading a page of it, and removing what is old or too much.

import { type ChangeMark, FEED_PAGE_MAX, type FeedPage } from '../ground/change-feed.ts';
import { MS_PER_DAY } from '../ground/duration.ts';
import { sleep } from '../ground/timeout.ts';
import type { Database, Row, Statement } from './database.ts';

/** Args: the seq after which to read. The change with that seq comes along, if it is still there, for its mark. */
export const CHANGES = `SELECT f.database_id, f.pruned_seq, max(f.pruned_seq, coalesce(n.seq, 0)) AS newest_seq,
n.changed_at_ms || n.key_hash AS newest_mark, c.seq, c.changed_at_ms, c.key_hash
FROM feed f LEFT JOIN changes n ON n.seq = (SELECT max(seq) FROM changes) LEFT JOIN changes c ON c.seq >= ?1
WHERE f.one = 1 ORDER BY c.seq LIMIT 1 + ${FEED_PAGE_MAX}`;

/** Changes are kept this long: a process that polls again in that time need not forget what it knows. */
const CHANGES_KEPT_MS = MS_PER_DAY;

/**
 * At most this many are kept, 100 MB: a hundred times what a process reads rather than forget all. At 5,000 changes a
 * second it takes 100 s: no creation that was given up still arrives then (INSERT in store/key-changes.ts).
 */
export const CHANGES_KEPT_MAX = 500_000;

/** Changes removed by one statement, which blocks a local file's process for some 10 ms. */
const PRUNE_ROWS = 250;

/** Between two of them, for everybody else. */
const PRUNE_PAUSE_MS = 10;

// The mark is raised before the rows go, so that readers who have not come that far know that changes are missing.
const PRUNE_MARK: Statement = {
  sql: `UPDATE feed SET pruned_seq = old.seq FROM (
SELECT max(seq) AS seq FROM (SELECT seq, changed_at_ms FROM changes ORDER BY seq LIMIT ?1)
WHERE changed_at_ms < unixepoch('subsec') * 1000 - ?2 OR seq <= (SELECT max(seq) FROM changes) - ?3) AS old
WHERE old.seq > pruned_seq RETURNING pruned_seq`,
  args: [PRUNE_ROWS, CHANGES_KEPT_MS, CHANGES_KEPT_MAX],
};

const PRUNE_MARKED: Statement = { sql: 'DELETE FROM changes WHERE seq <= (SELECT pruned_seq FROM feed)' };

// As many at once as of changes. The newest stays, whatever its age, so that its number is not given again.
const PRUNE_EVENTS = `DELETE FROM key_events
WHERE seq <= (SELECT max(seq) FROM (SELECT seq, at_ms FROM key_events ORDER BY seq LIMIT ${PRUNE_ROWS})
WHERE at_ms < unixepoch('subsec') * 1000 - ?1) AND seq < (SELECT max(seq) FROM key_events) RETURNING seq`;

export function pageOf(rows: readonly Row[], seq: number): FeedPage {
  const [first] = rows;
  if (first === undefined) throw new Error('the feed table has lost its row');
  const listed = rows
    .filter((row) => row.seq !== null)
    .map((row) => ({
      seq: Number(row.seq),
      changed: String(row.key_hash),
      mark: `${row.changed_at_ms}${row.key_hash}`,
    }));
  const seen = listed[0]?.seq === seq ? listed.shift() : undefined;
  return {
    databaseId: String(first.database_id),
    prunedSeq: Number(first.pruned_seq),
    mark: seen?.mark ?? null,
    newestSeq: Number(first.newest_seq),
    newestMark: first.newest_mark as ChangeMark,
    changes: listed.slice(0, FEED_PAGE_MAX),
  };
}

async function pruneEvents(primary: Database, keptMs: number): Promise<void> {
  while ((await primary.write({ sql: PRUNE_EVENTS, args: [keptMs] })).rows.length > 0) await sleep(PRUNE_PAUSE_MS);
}

/** Removes old events, and changes that are old or too many, a slice at a time. False: there were no such changes. */
export async function prune(primary: Database, eventsKeptMs: number): Promise<boolean> {
  await pruneEvents(primary, eventsKeptMs);
  for (let slices = 0; ; slices += 1) {
    await primary.write(PRUNE_MARKED); // first those that were marked and could not be removed
    if ((await primary.write(PRUNE_MARK)).rows.length === 0) return slices > 0;
    await sleep(PRUNE_PAUSE_MS);
  }
}
