// Takes one step of a replica's file along its primary's change feed. Position and rows change in one transaction, so they
// match however a process ends. Several processes may follow with one file: what was read at a position is only written
// if the file is still there. replica.ts decides when to step, and handles failures.

import { FEED_PAGE_MAX, type FeedPage, isLost, type ReachedPosition } from '../../ground/change-feed.ts';
import { outageIn } from '../../ground/result.ts';
import { type Clock, sleep } from '../../ground/runtime.ts';
import { type Database, firstOf, type Row, type Statement } from '../../store/database.ts';
import type { FileThread } from '../../store/embedded/thread.ts';
import { CHANGES, pageOf } from '../../store/key-reads.ts';
import { TABLES } from '../../store/tables.ts';
import { statementsOf } from '../../store/upkeep.ts';
import { FOLLOWED } from './replica-file.ts';
import { IS_ELSEWHERE, newerPagesOf, pagesOf, putChanged, putRows, type Read } from './row-copy.ts';

/** Rows read at once, some 100 KB, which block this process for a few milliseconds. */
const PAGE_ROWS = 250;
/** The longest pause after a page; otherwise it is as long as writing the page took. */
const PAUSE_MS_MAX = 20;

const COPIED = TABLES.filter(({ inReplica }) => inReplica);

/**
 * A prefix that makes a position invalid while its keys are still being copied: it is that of no database. It names the copy:
 * whoever copies writes nothing more once another process has begun anew.
 */
const COPYING = /^copying \S+ /;

export const POSITION: Statement = { sql: `SELECT database_id, pruned_seq AS seq, mark FROM feed, ${FOLLOWED}` };
/** First in a transaction: fails, and rolls it back, if the position has changed. */
const IS_AT = `UPDATE feed SET database_id = iif((database_id, pruned_seq) = (?1, ?2)
AND (SELECT mark FROM ${FOLLOWED}) IS ?3, database_id, NULL)`;

/** A replica that follows its primary. */
export interface Following {
  readonly local: Database;
  /** Starts a thread that writes many rows to the file; null: none can open it. */
  readonly startWriting: (() => FileThread) | null;
  readonly readPrimary: Read;
  readonly clock: Clock;
}

/**
 * The result of a step. `begun_anew`: the file is another database's, or holds what its primary has lost, and is empty now;
 * `begun`: it was empty before. `moved`: another step may find more. `done`: there is nothing more.
 */
export type Step = 'begun' | 'begun_anew' | 'moved' | 'done';

export const positionOf = (row: Row): ReachedPosition => ({
  databaseId: String(row.database_id),
  seq: Number(row.seq),
  mark: row.mark as string | null,
});

interface Stepping extends Following {
  /** Returns the writer for many rows: the thread, if there can be one, started if need be. */
  readonly bulkWriter: () => Into;
  /** Returns the writer for few rows: the thread, if there is one. */
  readonly writer: () => Into;
}

type Into = FileThread | Database;

/** Takes one step. `isReplaced`: the primary was replaced, whatever the file says. */
export async function followOn(following: Following, isReplaced: boolean): Promise<Step> {
  let thread: FileThread | undefined;
  const bulkWriter = () => {
    thread ??= following.startWriting?.();
    return thread ?? following.local;
  };
  try {
    return await step({ ...following, bulkWriter, writer: () => thread ?? following.local }, isReplaced);
  } finally {
    // Or the next commit would, in the event loop. It fails where the disk is full; the thread must end then, too.
    await thread?.read({ sql: 'PRAGMA wal_checkpoint(PASSIVE)' }).catch(outageIn);
    await thread?.end();
  }
}

async function step(stepping: Stepping, isReplaced: boolean): Promise<Step> {
  const from = await positionIn(stepping);
  const databaseId = from.databaseId.replace(COPYING, '');
  const page = pageOf(await stepping.readPrimary({ sql: CHANGES, args: [from.seq] }), from.seq);
  if (isReplaced || isLost({ ...from, databaseId }, page) || page.prunedSeq > from.seq) {
    await beginCopy(stepping, from, page);
    return from.databaseId === '' ? 'begun' : 'begun_anew';
  }
  if (from.databaseId !== databaseId) return copyAll(stepping, from, databaseId);
  return takeChanges(stepping, from, page);
}

const positionIn = async ({ local }: Following): Promise<ReachedPosition> =>
  positionOf(firstOf(await local.read(POSITION)));

/** Deletes everything, which may be many rows. What is copied next is at least as new as the position; changes follow. */
function beginCopy(
  stepping: Stepping,
  from: ReachedPosition,
  { databaseId, newestSeq, newestMark }: FeedPage,
): Promise<void> {
  const to = { databaseId: `copying ${crypto.randomUUID()} ${databaseId}`, seq: newestSeq, mark: newestMark };
  const empty = COPIED.map(({ name }) => ({ sql: `DELETE FROM ${name}` }));
  return moveOn(stepping.bulkWriter(), from, to, empty);
}

/** Copies what is missing, continuing an interrupted copy. */
async function copyAll(stepping: Stepping, from: ReachedPosition, databaseId: string): Promise<Step> {
  await takeNewer(stepping, from);
  for (const { name } of COPIED.filter(({ growsBy }) => growsBy === null)) {
    for await (const rows of pagesOf(stepping.readPrimary, name, PAGE_ROWS, { columnsFrom: stepping.local.read }))
      await putPage(stepping, from, name, rows);
  }
  await moveOn(stepping.writer(), from, { ...from, databaseId }, []);
  return 'moved';
}

/** Applies a page of changes, and after the last one copies new keys. */
async function takeChanges(
  stepping: Stepping,
  from: ReachedPosition,
  { databaseId, changes }: FeedPage,
): Promise<Step> {
  const last = changes.at(-1);
  if (last !== undefined) {
    const changed = changes.map((change) => change.changed);
    const copying = { from: stepping.readPrimary, copy: stepping.local.read, tables: COPIED };
    const statements = await putChanged(copying, changed);
    await moveOn(stepping.writer(), from, { databaseId, seq: last.seq, mark: last.mark }, statements);
  }
  if (changes.length === FEED_PAGE_MAX) return 'moved';
  await takeNewer(stepping, await positionIn(stepping));
  return 'done';
}

/** Copies new rows, and deletes as many old ones, whose removal isn't announced. */
async function takeNewer(stepping: Stepping, from: ReachedPosition): Promise<void> {
  const run = { nowMs: stepping.clock.nowMs(), eventDays: 0, usageDays: 0, after: 0 };
  for (const { name, growsBy, removals } of COPIED) {
    if (growsBy === null) continue;
    for await (const rows of newerPagesOf(stepping.readPrimary, stepping.local.read, name, growsBy, PAGE_ROWS)) {
      const old = removals.flatMap((removal) => statementsOf(removal, run));
      if (old.length > 0) await put(stepping.writer(), from, old);
      await putPage(stepping, from, name, rows);
    }
  }
}

/** Writes rows; a full page of them, which others follow, in the thread. */
async function putPage(stepping: Stepping, from: ReachedPosition, table: string, rows: readonly Row[]): Promise<void> {
  const statements = putRows('REPLACE', table, rows);
  if (rows.length < PAGE_ROWS) return put(stepping.writer(), from, statements);
  const beganMs = performance.now();
  await put(stepping.bulkWriter(), from, statements);
  await sleep(Math.min(performance.now() - beganMs, PAUSE_MS_MAX));
}

/** Writes what was read at a position, unless another process has moved on from there. */
async function put(into: Into, from: ReachedPosition, statements: readonly Statement[]): Promise<void> {
  const all = [{ sql: IS_AT, args: [from.databaseId, from.seq, from.mark] }, ...statements];
  try {
    await into.writeAll(all.map((statement) => ({ ...statement, unsynced: true })));
  } catch (error) {
    if (!IS_ELSEWHERE.test(String(error))) throw error;
  }
}

const moveOn = (into: Into, from: ReachedPosition, to: ReachedPosition, statements: readonly Statement[]) =>
  put(into, from, [
    ...statements,
    { sql: `UPDATE ${FOLLOWED} SET mark = ?`, args: [to.mark] },
    { sql: 'UPDATE feed SET database_id = ?, pruned_seq = ?', args: [to.databaseId, to.seq] },
  ]);
