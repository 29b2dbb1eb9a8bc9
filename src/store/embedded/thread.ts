// Writes to an SQLite file in its own thread. There statements, commits and the disk, which may take half a second while
// others write to it, delay nobody; in the event loop all calls would wait for them.

import type { Worker } from 'node:worker_threads';
import type { Statement, Written } from '../database.ts';
import { LOG_PAGES_MAX } from './connection.ts';
import { CANTOPEN, coded, outageOf } from './sqlite.ts';

/** How long a statement waits for another connection's lock. */
const LOCK_WAIT_MS = 5000;

/** The thread's code, as text, because the executable would not find a file. */
const THREAD = `
const { parentPort, workerData } = require('node:worker_threads');
const { DatabaseSync } = require('node:sqlite');
let db;
function open() {
  db = new DatabaseSync(workerData, { timeout: ${LOCK_WAIT_MS} });
  db.exec('PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = ${LOG_PAGES_MAX}');
}
const prepared = new Map();
function run({ sql, args = [] }) {
  if (!prepared.has(sql)) prepared.set(sql, db.prepare(sql));
  return Number(prepared.get(sql).run(...args).changes);
}
function transact(statements) {
  db.exec('BEGIN IMMEDIATE');
  try {
    const changed = statements.map(run);
    db.exec('COMMIT');
    return changed;
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}
const asked = {
  checkpoint: () => db.exec('PRAGMA wal_checkpoint(PASSIVE)'),
  end: () => db.close(),
};
parentPort.on('message', (message) => {
  try {
    if (db === undefined) open();
    parentPort.postMessage({ changed: typeof message === 'string' ? asked[message]() : transact(message) });
  } catch ({ message, errcode = db === undefined ? ${CANTOPEN} : undefined }) {
    parentPort.postMessage({ failure: { message, errcode } });
  }
});`;

interface Answer {
  readonly changed?: readonly number[];
  readonly failure?: { readonly message: string; readonly errcode?: number };
}

export interface WritingThread {
  /**
   * Runs statements in one transaction, all or none, which a power cut may undo; returns no rows. The next call must wait
   * for the end of this one. Throws like a Database.
   */
  writeAll(statements: readonly Statement[]): Promise<readonly Written[]>;
  /** Checkpoints the log, so that the next commit in the event loop need not. */
  checkpoint(): Promise<void>;
  end(): Promise<void>;
}

/** Creates a thread that starts with its first statement, and then takes 15 MB of memory. The file must exist by then. */
export function createWritingThread(path: string): WritingThread {
  let thread: Worker | null = null;

  async function ask(message: readonly Statement[] | 'checkpoint' | 'end'): Promise<Answer> {
    const [{ once }, workers] = await Promise.all([import('node:events'), import('node:worker_threads')]); // lazily
    if (thread === null) {
      thread = new workers.Worker(THREAD, { eval: true, workerData: path });
      thread.unref();
    }
    const answered = once(thread, 'message');
    thread.postMessage(message);
    const [answer] = (await answered) as [Answer];
    return answer;
  }

  /** Drops a thread that failed, and may have ended itself; the next statement starts another. */
  async function drop(): Promise<void> {
    const failed = thread;
    thread = null;
    await failed?.terminate();
  }

  async function send(message: readonly Statement[] | 'checkpoint'): Promise<readonly number[]> {
    const { changed = [], failure } = await ask(message).catch(async (error) => {
      await drop();
      throw outageOf(coded(error)) ?? error;
    });
    if (failure === undefined) return changed;
    const error = coded(Object.assign(new Error(failure.message), failure));
    throw outageOf(error) ?? error;
  }

  return {
    writeAll: async (statements) => (await send(statements)).map((changed) => ({ rows: [], changed, repeated: false })),
    checkpoint: async () => void (thread !== null && (await send('checkpoint'))),
    async end() {
      if (thread !== null) await ask('end').catch(() => {}); // a failed one has closed the file
      await drop();
    },
  };
}
