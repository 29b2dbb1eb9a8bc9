// Uses an SQLite file in a thread. There long reads, and commits to a disk that may take half a second while others write to
// it, delay nobody; in the event loop all calls would wait for them.

import { closeSync, openSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import { StoreOutage } from '../../ground/result.ts';
import { errorReason, type Row, type Statement, type Written } from '../database.ts';
import { CANTOPEN, LOG_PAGES_MAX, outageOf } from './sqlite.ts';

/** How long a statement waits for another connection's lock. */
const LOCK_WAIT_MS = 5000;

/** The thread's code, as text, because the executable would not find a file. */
const THREAD = `
const { parentPort, workerData } = require('node:worker_threads');
const { DatabaseSync } = require('node:sqlite');
let db;
function open() {
  db = new DatabaseSync(workerData, { timeout: ${LOCK_WAIT_MS} });
  db.prepare('PRAGMA synchronous = NORMAL').all(); // not exec: on Deno its errors have no code
  db.prepare('PRAGMA wal_autocheckpoint = ${LOG_PAGES_MAX}').all();
}
const prepared = new Map();
function prepare(sql) {
  if (!prepared.has(sql)) prepared.set(sql, db.prepare(sql));
  return prepared.get(sql);
}
function transact(statements) {
  prepare('BEGIN IMMEDIATE').run();
  try {
    const changed = statements.map(({ sql, args = [] }) => Number(prepare(sql).run(...args).changes));
    prepare('COMMIT').run();
    return changed;
  } catch (error) {
    if (db.isTransaction) prepare('ROLLBACK').run();
    throw error;
  }
}
const does = {
  write: transact,
  read: ({ sql, args = [] }) => db.prepare(sql).all(...args), // not kept: each day has reads of its own
  end: () => db.close(),
};
parentPort.on('message', ([what, given]) => {
  try {
    if (db === undefined) open();
    parentPort.postMessage({ result: does[what](given) });
  } catch ({ message, errcode = db === undefined ? ${CANTOPEN} : undefined }) {
    parentPort.postMessage({ failure: { message, errcode } });
  }
});`;

/** More descriptors than a thread takes when it starts: 2 on Bun, 6 on Deno. Without them both end the process. */
const DESCRIPTORS_NEEDED = 8;

/** Throws the system's error if too few descriptors are free, as when connections have taken all. */
function assertDescriptors(): void {
  const opened: number[] = [];
  try {
    while (opened.length < DESCRIPTORS_NEEDED) opened.push(openSync('/dev/null', 'r'));
  } catch (error) {
    if (/^E[MN]FILE$/.test(String((error as { code?: unknown }).code))) throw error;
  } finally {
    for (const descriptor of opened) closeSync(descriptor);
  }
}

interface Answer {
  readonly result?: unknown;
  readonly failure?: { readonly message: string; readonly errcode?: number };
}

type Message = readonly ['write', readonly Statement[]] | readonly ['read', Statement] | readonly ['end'];

export type FileThread = ReturnType<typeof createFileThread>;

/**
 * Creates a thread that starts with its first statement, and then takes 15 MB of memory. The file must exist by then. Each
 * call but `read` must wait for the end of the one before. All throw like a Database.
 */
export function createFileThread(path: string) {
  let thread: Worker | null = null;
  let lastRead: Promise<unknown> = Promise.resolve();

  async function ask(message: Message): Promise<Answer> {
    const [{ once }, workers] = await Promise.all([import('node:events'), import('node:worker_threads')]); // lazily
    if (thread === null) assertDescriptors();
    thread ??= new workers.Worker(THREAD, { eval: true, workerData: path });
    const asked = thread;
    asked.ref(); // until it answers: Deno ends a command that waits for nothing else
    try {
      const answered = once(asked, 'message');
      asked.postMessage(message);
      const [answer] = (await answered) as [Answer];
      return answer;
    } finally {
      asked.unref();
    }
  }

  /** Drops a thread that failed, and may have ended itself; the next statement starts another. */
  async function drop(): Promise<void> {
    const failed = thread;
    thread = null;
    await failed?.terminate();
  }

  async function send(message: Message): Promise<unknown> {
    const { result, failure } = await ask(message).catch(async (error) => {
      await drop();
      throw new StoreOutage(errorReason(error)); // it could not start, for want of memory, threads or files
    });
    if (failure === undefined) return result;
    const error = Object.assign(new Error(failure.message), failure);
    throw outageOf(error) ?? error;
  }

  return {
    /** Runs statements in one transaction, all or none, which a power cut may undo; returns no rows. */
    async writeAll(statements: readonly Statement[]): Promise<readonly Written[]> {
      const changes = (await send(['write', statements])) as readonly number[];
      return changes.map((changed) => ({ rows: [], changed, repeated: false }));
    },
    /** Reads, after all reads before. */
    read(statement: Statement): Promise<readonly Row[]> {
      const mine = lastRead.then(() => send(['read', statement]));
      lastRead = mine.catch(() => {});
      return mine as Promise<readonly Row[]>;
    },
    async end(): Promise<void> {
      await lastRead;
      if (thread !== null) await ask(['end']).catch(() => {}); // a failed one has closed the file
      await drop();
    },
  };
}
