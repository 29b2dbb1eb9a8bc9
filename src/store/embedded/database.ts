// A Database over an SQLite file, which other processes may have open too. Statements take turns, because each blocks
// the event loop. Writes that wait at the same moment share a commit: each has to wait for the disk, and eight together
// wait little longer than one.

import { StoreOutage } from '../../ground/result.ts';
import { nextTurn, sleep } from '../../ground/runtime.ts';
import { type Database, errorReason, isSchemaMissing, type Row, type Statement, type Written } from '../database.ts';
import { codeOf, isBusy, isDamaged, openSqlite, type SqliteConnection } from './sqlite.ts';

/** How long SQLite itself waits for another process's lock. The wait blocks the event loop, so it is short. */
const LOCK_WAIT_MS = 3;
/** While the file is locked, a statement is tried again until this long after it was asked for. */
const RETRY_MS_MAX = 5000;
/** The random pause between two tries is up to this long. */
const RETRY_PAUSE_MS_MAX = 20;
/** After so much work in a row that blocks the event loop, the loop runs what else is waiting. */
const BLOCKING_MS_MAX = 3;
/** The most writes in a group. With eight, each has a small part of the disk's time; they block for a millisecond. */
const GROUP_MAX = 8;
/** A group of slow statements ends after this much work. */
const GROUP_MS_MAX = 2;
/**
 * A commit moves the write-ahead log into the file once it has this many pages (4 KiB), in 4 ms; at SQLite's default
 * of 1,000, in 9 ms. A creation writes five; at 250 it waits for the disk more often, and takes 2 % longer.
 */
const CHECKPOINT = 'PRAGMA wal_autocheckpoint = 400';
/** `IMMEDIATE`: whoever has begun can write. */
const BEGIN: Statement = { sql: 'BEGIN IMMEDIATE' };
const COMMIT: Statement = { sql: 'COMMIT' };
/** `FULL`: a commit is on the disk before it is acknowledged. `NORMAL`: it survives the process, not a power cut. */
type Durability = 'FULL' | 'NORMAL';

/** Logged for damage that the check at the start missed: it does not read every page of a large file. */
const DAMAGED_TEXT = 'the database file is damaged; restore it from a backup';

interface Waiting {
  /** One, or those of a batch. */
  readonly statements: readonly Statement[];
  readonly durability: Durability;
  readonly untilMs: number;
  /** Whether it gets a transaction of its own: a batch does, and each statement of a group that failed. */
  alone: boolean;
  resolve(written: readonly Written[]): void;
  reject(error: unknown): void;
}

export interface FileOptions {
  /** Leaves the file and its write-ahead log as they are. */
  readonly readOnly?: boolean;
  /**
   * Called before each statement; throws a StoreOutage where it must not run. `now`: before a write and a poll of the
   * feed, which prove something; else what was found in this turn of the event loop will do.
   */
  readonly check?: (now: boolean) => void;
}

export function embeddedDatabase(path: string, { readOnly = false, check }: FileOptions = {}): Database {
  const { connection, close } = lazyConnection(path, readOnly);
  const turns = createTurns();
  const waiting: Waiting[] = [];
  let durability: Durability | undefined;
  let committing = false;

  /** Returns those that share the next commit, and leaves them in the queue. */
  function nextGroup(): readonly Waiting[] {
    const [first] = waiting;
    const others = waiting.findIndex((one, at) => at > 0 && (one.alone || one.durability !== first?.durability));
    if (first?.alone) return waiting.slice(0, 1);
    return waiting.slice(0, others === -1 ? GROUP_MAX : Math.min(GROUP_MAX, others));
  }

  /** Runs the group, or its beginning if that takes long, in one transaction. */
  function transact(group: readonly Waiting[]): (readonly Written[])[] {
    const db = connection();
    const wanted = group[0]?.durability ?? 'FULL';
    if (durability !== wanted) db.exec(`PRAGMA synchronous = ${wanted}`);
    durability = wanted;
    db.all(BEGIN);
    const endMs = performance.now() + GROUP_MS_MAX;
    const written: (readonly Written[])[] = [];
    try {
      for (const { statements } of group) {
        written.push(statements.map(db.run));
        if (performance.now() > endMs) break;
      }
      db.all(COMMIT);
      return written;
    } catch (error) {
      db.rollback();
      throw error;
    }
  }

  /**
   * Never throws. One that fails takes none with it: all is undone, and each of the group runs again by itself. Returns
   * the error if the file is locked: nothing was written then, and all wait on.
   */
  function commitNext(): unknown {
    const group = nextGroup();
    try {
      for (const written of transact(group)) waiting.shift()?.resolve(written);
    } catch (error) {
      if (isBusy(error)) return error;
      if (group.length === 1) waiting.shift()?.reject(error);
      for (const one of group) one.alone = true;
    }
    return null;
  }

  async function commitAll(): Promise<void> {
    committing = true;
    while (waiting.length > 0) {
      await nextTurn(); // who writes in this turn of the event loop comes into the same group
      const busy = await turns(commitNext);
      if (busy === null) continue;
      while (waiting[0] !== undefined && waiting[0].untilMs < performance.now()) waiting.shift()?.reject(busy);
      await pauseWhileBusy();
    }
    committing = false;
  }

  const commit = (statements: readonly Statement[], alone = false) =>
    new Promise<readonly Written[]>((resolve, reject) => {
      const lasting: Durability = statements.every(({ unsynced }) => unsynced) ? 'NORMAL' : 'FULL';
      const untilMs = performance.now() + RETRY_MS_MAX;
      waiting.push({ statements, durability: lasting, untilMs, alone, resolve, reject });
      if (!committing) void commitAll();
    });

  async function readWithin(statement: Statement, withinMs: number): Promise<readonly Row[]> {
    const untilMs = performance.now() + withinMs;
    for (;;) {
      try {
        return await turns(() => connection().all(statement));
      } catch (error) {
        if (!isBusy(error) || performance.now() > untilMs) throw error;
        await pauseWhileBusy();
      }
    }
  }

  async function guarded<T>(checksNow: boolean, run: () => Promise<T>): Promise<T> {
    check?.(checksNow);
    try {
      return await run();
    } catch (error) {
      throw outageOf(error) ?? error;
    }
  }

  return {
    read: (statement, withinMs = RETRY_MS_MAX) =>
      guarded(statement.urgent === true, () => readWithin(statement, withinMs)),
    write: (statement) => guarded(true, async () => (await commit([statement]))[0] as Written), // one for each statement
    writeAll: (statements) => guarded(true, () => commit(statements, true)),
    close,
  };
}

const pauseWhileBusy = (): Promise<void> => sleep(Math.random() * RETRY_PAUSE_MS_MAX);

function lazyConnection(path: string, readOnly: boolean) {
  let opened: SqliteConnection | undefined;
  let closed = false;

  function open(): SqliteConnection {
    const db = openSqlite(path, { lockWaitMs: LOCK_WAIT_MS, readOnly });
    db.exec(CHECKPOINT);
    return db;
  }

  return {
    connection(): SqliteConnection {
      if (closed) throw Object.assign(new Error('the store is closed'), { code: 'SQLITE_CANTOPEN' });
      opened ??= open();
      return opened;
    },
    close() {
      closed = true;
      opened?.close();
      opened = undefined;
    },
  };
}

/** Runs one after another, and lets the event loop run what else waits after each `BLOCKING_MS_MAX` of work. */
function createTurns() {
  let last: Promise<unknown> = Promise.resolve();
  let yieldedAtMs = 0;

  async function yieldToEventLoop(): Promise<void> {
    if (performance.now() - yieldedAtMs < BLOCKING_MS_MAX) return;
    await nextTurn();
    yieldedAtMs = performance.now();
  }

  return <T>(work: () => T): Promise<T> => {
    const mine = last.then(work);
    last = mine.then(yieldToEventLoop, yieldToEventLoop);
    return mine;
  };
}

/** Returns the outage that an error tells of; null: the error is a bug. */
function outageOf(error: unknown): StoreOutage | null {
  if (isSchemaMissing(error)) return new StoreOutage(errorReason(error), 'no_schema');
  if (codeOf(error) === '') return null;
  const reason = errorReason(error);
  return isDamaged(error) ? new StoreOutage(`${DAMAGED_TEXT} (${reason})`, 'damaged') : new StoreOutage(reason);
}
