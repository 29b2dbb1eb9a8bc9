// One step of a replica's file along its primary's change feed. Position and rows change in one transaction, so they fit,
// however a process ends. Several processes may follow with one file: what was read at a position is put in only where
// that is still there. When steps are taken, and what comes of a failure, is up to replica.ts.

import { FEED_PAGE_MAX, type FeedPage, isLost, type ReachedPosition } from '../../ground/change-feed.ts';
import { type Clock, sleep } from '../../ground/runtime.ts';
import { newerPagesOf, OF_OWNERS, pagesOf, putChanged, putRows, type Read, removeOldChildren } from '../copying.ts';
import { type Database, firstOf, type Row, type Statement } from '../database.ts';
import type { WritingThread } from '../embedded/thread.ts';
import { CHANGES, pageOf } from '../feed.ts';
import { FOLLOWED } from './file.ts';

/** Rows that are read at once, some 100 KB, which holds up this process for a few milliseconds. */
const PAGE_ROWS = 250;
/** After so many are put in there is a pause, which is as long as that took, but no longer than this. */
const PAUSE_MS_MAX = 20;

/** New rows of these come after the last one. */
const GROWING = ['api_keys', 'children'];

/** A position whose keys are still being copied counts for nobody: it is that of no database. */
const COPYING = 'copying ';

export const POSITION: Statement = { sql: `SELECT database_id, pruned_seq AS seq, mark FROM feed, ${FOLLOWED}` };
/** First in a transaction: fails, and undoes it, where the position is another one. */
const IS_AT = `UPDATE feed SET database_id = iif((database_id, pruned_seq) = (?1, ?2)
AND (SELECT mark FROM ${FOLLOWED}) IS ?3, database_id, NULL)`;
const IS_ELSEWHERE = /NOT NULL constraint failed: feed/;

/** The file and its primary. */
export interface Pair {
  readonly here: Database;
  /** Starts a thread that writes many rows to the file. */
  readonly startWriting: () => WritingThread;
  readonly readPrimary: Read;
  readonly clock: Clock;
  /** Returns whether the process is about to end: then a step ends early. */
  readonly isStopping: () => boolean;
}

/**
 * What a step did: `begun_anew`: the file is of another database, or holds what its primary has lost, and is empty now;
 * `begun`: it was empty before. `moved`: another step may find more. `done`: there is nothing more.
 */
export type Step = 'begun' | 'begun_anew' | 'moved' | 'done';

export const positionOf = (row: Row): ReachedPosition => ({
  databaseId: String(row.database_id),
  seq: Number(row.seq),
  mark: row.mark as string | null,
});

/** A step under way. */
interface Stepping extends Pair {
  /** Returns what writes many rows: the thread, which is started. */
  readonly many: () => Into;
  /** Returns what writes few: the thread, if there is one. */
  readonly few: () => Into;
}

type Into = Pick<WritingThread, 'writeAll'> | Pick<Database, 'writeAll'>;

/** Takes one step. `isReplaced`: the primary was, whatever the file says. */
export async function followOn(pair: Pair, isReplaced: boolean): Promise<Step> {
  let thread: WritingThread | undefined;
  const many = () => {
    thread ??= pair.startWriting();
    return thread;
  };
  try {
    return await step({ ...pair, many, few: () => thread ?? pair.here }, isReplaced);
  } finally {
    await thread?.moveLog();
    await thread?.end();
  }
}

async function step(pair: Stepping, isReplaced: boolean): Promise<Step> {
  const from = await positionIn(pair);
  const databaseId = from.databaseId.replace(COPYING, '');
  const page = pageOf(await pair.readPrimary({ sql: CHANGES, args: [from.seq] }), from.seq);
  if (isReplaced || isLost({ ...from, databaseId }, page) || page.prunedSeq > from.seq) {
    await beginCopy(pair, from, page);
    return from.databaseId === '' ? 'begun' : 'begun_anew';
  }
  if (from.databaseId !== databaseId) return copyAll(pair, from, databaseId);
  return takeChanges(pair, from, page);
}

const positionIn = async ({ here }: Pair): Promise<ReachedPosition> => positionOf(firstOf(await here.read(POSITION)));

/**
 * Forgets all, which may be many rows. What is copied from now on is as new as the position at least, and what changes
 * meanwhile follows.
 */
function beginCopy(
  pair: Stepping,
  from: ReachedPosition,
  { databaseId, newestSeq, newestMark }: FeedPage,
): Promise<void> {
  const empty = [...GROWING, ...OF_OWNERS].map((table) => ({ sql: `DELETE FROM ${table}` }));
  const into = from.databaseId === '' ? pair.few() : pair.many();
  return moveOn(into, from, { databaseId: COPYING + databaseId, seq: newestSeq, mark: newestMark }, empty);
}

/** Copies what is not here yet, from where the copying was interrupted. */
async function copyAll(pair: Stepping, from: ReachedPosition, databaseId: string): Promise<Step> {
  await takeNewer(pair, from);
  for (const table of OF_OWNERS) {
    for await (const rows of pagesOf(pair.readPrimary, table, PAGE_ROWS)) await putPage(pair, from, table, rows);
  }
  if (pair.isStopping()) return 'done';
  await moveOn(pair.few(), from, { ...from, databaseId }, []);
  return 'moved';
}

/** Takes over a page of changes, and after the last one keys that were made since. */
async function takeChanges(pair: Stepping, from: ReachedPosition, { databaseId, changes }: FeedPage): Promise<Step> {
  const last = changes.at(-1);
  if (last !== undefined) {
    const changed = changes.map((change) => change.changed);
    const statements = await putChanged(pair.readPrimary, (statement) => pair.here.read(statement), changed);
    await moveOn(pair.few(), from, { databaseId, seq: last.seq, mark: last.mark }, statements);
  }
  if (changes.length === FEED_PAGE_MAX) return 'moved';
  await takeNewer(pair, await positionIn(pair));
  return 'done';
}

/** Takes over keys that were made since, then their children, of which old ones go. */
async function takeNewer(pair: Stepping, from: ReachedPosition): Promise<void> {
  const here: Read = (statement) => pair.here.read(statement);
  for (const table of GROWING) {
    for await (const rows of newerPagesOf(pair.readPrimary, here, table, 'row', PAGE_ROWS)) {
      if (table === 'children') await put(pair.few(), from, [removeOldChildren(pair.clock)]);
      await putPage(pair, from, table, rows);
      if (pair.isStopping()) return;
    }
  }
}

/** Puts in rows; a page full of them, of which there are more, in the thread. */
async function putPage(pair: Stepping, from: ReachedPosition, table: string, rows: readonly Row[]): Promise<void> {
  const statements = putRows('REPLACE', table, rows);
  if (rows.length < PAGE_ROWS) return put(pair.few(), from, statements);
  const beganMs = performance.now();
  await put(pair.many(), from, statements);
  await sleep(Math.min(performance.now() - beganMs, PAUSE_MS_MAX));
}

/** Puts in what was read at a position; nothing if another process has moved on from there. */
async function put(into: Into, from: ReachedPosition, statements: readonly Statement[]): Promise<void> {
  const all = [{ sql: IS_AT, args: [from.databaseId, from.seq, from.mark] }, ...statements];
  try {
    await into.writeAll(all.map((statement) => ({ ...statement, unsynced: true })));
  } catch (error) {
    if (!IS_ELSEWHERE.test(String(error))) throw error;
  }
}

/** Puts it in, and moves on to the next position. */
const moveOn = (into: Into, from: ReachedPosition, to: ReachedPosition, statements: readonly Statement[]) =>
  put(into, from, [
    ...statements,
    { sql: `UPDATE ${FOLLOWED} SET mark = ?`, args: [to.mark] },
    { sql: 'UPDATE feed SET database_id = ?, pruned_seq = ?', args: [to.databaseId, to.seq] },
  ]);
