// Reads a page of the change feed, and parses its rows.

import { type ChangeMark, FEED_PAGE_MAX, type FeedPage } from '../ground/change-feed.ts';
import { firstOf, type Row, textIn, wholeIn } from './database.ts';

/** Reads after the seq ?1. The change with that seq is included, if it still exists, for its mark. */
export const CHANGES = `SELECT f.database_id, f.pruned_seq, max(f.pruned_seq, coalesce(n.seq, 0)) AS newest_seq,
n.changed_at_ms || n.key_hash AS newest_mark, c.seq, c.changed_at_ms, c.key_hash,
EXISTS (SELECT 1 FROM api_keys WHERE foreign_hash IN (key_hash, second_hash)) AS holds_foreign,
EXISTS (SELECT 1 FROM rules) AS holds_rules
FROM feed f LEFT JOIN changes n ON n.seq = (SELECT max(seq) FROM changes) LEFT JOIN changes c ON c.seq >= ?1
WHERE f.one = 1 ORDER BY c.seq LIMIT 1 + ${FEED_PAGE_MAX}`;

export function pageOf(rows: readonly Row[], seq: number): FeedPage {
  const first = firstOf(rows);
  const listed = rows
    .filter((row) => row.seq !== null)
    .map((row) => ({
      seq: wholeIn(row, 'seq'),
      changed: textIn(row, 'key_hash'),
      mark: `${row.changed_at_ms}${row.key_hash}`,
    }));
  const seen = listed[0]?.seq === seq ? listed.shift() : undefined;
  return {
    databaseId: textIn(first, 'database_id'),
    prunedSeq: wholeIn(first, 'pruned_seq'),
    mark: seen?.mark ?? null,
    newestSeq: wholeIn(first, 'newest_seq'),
    newestMark: first.newest_mark as ChangeMark,
    holdsForeign: first.holds_foreign === 1,
    holdsRules: first.holds_rules === 1,
    changes: listed.slice(0, FEED_PAGE_MAX),
  };
}
