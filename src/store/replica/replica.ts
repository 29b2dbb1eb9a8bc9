// A replica of the keys near by, for reads: a file that follows the primary's change feed. Position and rows change in
// one transaction, so they fit, however the process ends. The reader decides whether to trust a response, by its position
// (store/key-reads.ts): a replica that lags, or lacks a key, costs a read of the primary and nothing else. Several
// processes may follow with one file: what was read at a position is put in only where that is still there.

import { repeat } from '../../ground/background.ts';
import { FEED_PAGE_MAX, hasReached, isLost, type ReachedPosition } from '../../ground/change-feed.ts';
import { isOutage } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import { reasonOf } from '../../ground/text.ts';
import type { Log } from '../../watch/log.ts';
import { createOutageLog } from '../../watch/outage.ts';
import { newerPagesOf, pagesOf, putChanged, putRows, type Read, removeOldChildren } from '../copying.ts';
import type { Database, Row, Statement } from '../database.ts';
import { CHANGES, pageOf } from '../feed.ts';
import { FOLLOWED, openReplica, refuseForeign } from './file.ts';

/** While the replica lags, unknown keys are read from the primary: a lag costs a few reads. */
const FOLLOW_EVERY_MS = 1000;
/** Keys that are read at once, some 400 KB. */
const READ_ROWS = 1000;
/** Keys that are put in at once, which takes a few milliseconds of this process. */
const PUT_ROWS = 100;

/** `catching_up`: it responds, but does not have yet what its process knows of. */
export type ReplicaState = 'in_use' | 'catching_up' | 'not_in_use';

export interface ReplicaOptions {
  readonly file: string;
  readonly readPrimary: Read;
  readonly clock: Clock;
  readonly log: Log;
}

export type Replica = ReturnType<typeof createReplica>;

const POSITION: Statement = { sql: `SELECT database_id, pruned_seq AS seq, mark FROM feed, ${FOLLOWED}` };
/** A position whose keys are still being copied counts for nobody: it is that of no database. */
const COPYING = 'copying ';
/** First in a transaction: fails, and undoes it, where the position is another one. */
const IS_AT = `UPDATE feed SET database_id = iif((database_id, pruned_seq) = (?1, ?2)
AND (SELECT mark FROM ${FOLLOWED}) IS ?3, database_id, NULL)`;
const IS_ELSEWHERE = /NOT NULL constraint failed: feed/;

const AWAY = 'the primary is away';
const REPLACED = 'the primary was replaced';
const LOST = 'it is of another database, or holds what its primary has lost';

/** Throws if the file belongs to another program, or is a database of keys. */
export function createReplica({ file, readPrimary, clock, log }: ReplicaOptions) {
  refuseForeign(file);
  const outage = createOutageLog(log, { on: 'replica not in use', eachReason: true });
  let here: Database | null = null;
  let isDamaged = false;
  let isReplaced = false;
  let isOpen = false;
  let kept = true;
  let stopping = false;

  const readAway: Read = (statement) =>
    readPrimary(statement).catch((error) => {
      throw new Error(AWAY, { cause: error });
    });
  const readHere: Read = async (statement) => (here === null ? [] : here.read(statement));

  async function positionHere(): Promise<ReachedPosition> {
    const [row] = await readHere(POSITION);
    return { databaseId: String(row?.database_id), seq: Number(row?.seq), mark: row?.mark as string | null };
  }

  /** Puts in what was read at a position; nothing if another process has moved on from there. */
  async function put({ databaseId, seq, mark }: ReachedPosition, statements: readonly Statement[]): Promise<void> {
    const all = [{ sql: IS_AT, args: [databaseId, seq, mark] }, ...statements];
    try {
      await (here as Database).writeAll(all.map((statement) => ({ ...statement, unsynced: true })));
    } catch (error) {
      if (!IS_ELSEWHERE.test(String(error))) throw error;
    }
  }

  /** Puts it in, and moves on to the next position. */
  const moveOn = (from: ReachedPosition, to: ReachedPosition, statements: readonly Statement[]) =>
    put(from, [
      ...statements,
      { sql: `UPDATE ${FOLLOWED} SET mark = ?`, args: [to.mark] },
      { sql: 'UPDATE feed SET database_id = ?, pruned_seq = ?', args: [to.databaseId, to.seq] },
    ]);

  /** Takes over keys that were made since, then their children, of which old ones go. */
  async function takeNewer(from: ReachedPosition): Promise<void> {
    for (const table of ['api_keys', 'children']) {
      for await (const rows of newerPagesOf(readAway, readHere, table, 'row', READ_ROWS)) {
        for (let first = 0; first < rows.length; first += PUT_ROWS) {
          const old = table === 'children' ? [removeOldChildren(clock)] : [];
          await put(from, [...old, ...putRows('REPLACE', table, rows.slice(first, first + PUT_ROWS))]);
        }
        if (stopping) return;
      }
    }
  }

  /** Forgets all. What is copied from now on is as new as the position at least, and what changes meanwhile follows. */
  async function beginCopy(from: ReachedPosition, to: ReachedPosition): Promise<void> {
    if (from.databaseId !== '') outage.began(isReplaced ? REPLACED : LOST);
    isReplaced = false;
    kept = false;
    isOpen = false;
    const empty = ['api_keys', 'children', 'blocked_owners'].map((table) => ({ sql: `DELETE FROM ${table}` }));
    await moveOn(from, { ...to, databaseId: COPYING + to.databaseId }, empty);
  }

  /** One page of changes. False: there are no more. */
  async function follow(): Promise<boolean> {
    const from = await positionHere();
    const isCopying = from.databaseId.startsWith(COPYING);
    const databaseId = isCopying ? from.databaseId.slice(COPYING.length) : from.databaseId;
    const page = pageOf(await readAway({ sql: CHANGES, args: [from.seq] }), from.seq);
    if (isReplaced || isLost({ ...from, databaseId }, page) || page.prunedSeq > from.seq) {
      await beginCopy(from, { databaseId: page.databaseId, seq: page.newestSeq, mark: page.newestMark });
      return true;
    }
    if (isCopying) {
      await takeNewer(from);
      for await (const rows of pagesOf(readAway, 'blocked_owners', READ_ROWS)) {
        await put(from, putRows('REPLACE', 'blocked_owners', rows));
      }
      if (stopping) return false;
      await moveOn(from, { ...from, databaseId }, []);
      return true;
    }
    const last = page.changes.at(-1);
    if (last !== undefined) {
      const changed = page.changes.map(({ changed }) => changed);
      const statements = await putChanged(readAway, readHere, changed);
      await moveOn(from, { databaseId, seq: last.seq, mark: last.mark }, statements);
    }
    if (page.changes.length === FEED_PAGE_MAX) return true;
    await takeNewer(await positionHere());
    return false;
  }

  async function followAll(): Promise<void> {
    try {
      here ??= await openReplica(file, isDamaged);
      isDamaged = false;
      while (await follow());
      if (stopping) return;
      if (!isOpen) log.info('replica opened', { kept });
      outage.ended();
      isOpen = true;
      kept = true;
    } catch (error) {
      failed(error);
    }
  }

  /** A primary that is away leaves the replica as it is. */
  function failed(error: unknown): void {
    const isHere = !(error instanceof Error && error.message === AWAY);
    if (isOpen && !isHere) return;
    outage.began(reasonOf(error));
    if (!isHere || !isOutage(error, 'damaged')) return;
    isDamaged = true;
    isOpen = false;
    here?.close();
    here = null;
  }

  const following = repeat(
    { everyMs: FOLLOW_EVERY_MS, firstMs: null, clock, log, event: 'replica not in use' },
    followAll,
  );

  /** Reads one statement; null when nothing here responds. */
  async function read(statement: Statement): Promise<readonly Row[] | null> {
    if (!isOpen || isReplaced) return null;
    try {
      return await readHere(statement);
    } catch (error) {
      failed(error);
      return null;
    }
  }

  return {
    read,
    /** Opens it, once the primary is known to respond. */
    open: following.hasten,
    /** Whether its responses count in a process that knows of everything up to `reached`. */
    async state(reached: ReachedPosition): Promise<ReplicaState> {
      const rows = await read(POSITION);
      const [row] = rows ?? [];
      if (row === undefined) return 'not_in_use';
      const position = { databaseId: String(row.database_id), seq: Number(row.seq) };
      return hasReached(position, reached) ? 'in_use' : 'catching_up';
    },
    /** The primary was replaced: drops what is here, which belongs to the one before. */
    discard(): void {
      isReplaced = true;
      following.hasten();
    },
    async close(): Promise<void> {
      stopping = true;
      following.stop();
      await following.underWay;
      here?.close();
    },
  };
}
