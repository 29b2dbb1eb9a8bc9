// Writes to an SQLite file in a thread of its own. There statements, commits and the disk, which may take half a second
// while others write to it, hold up nobody; in the event loop all calls would wait with them.

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Statement } from '../database.ts';
import { LOG_PAGES_MAX } from './connection.ts';
import { outageOf } from './database.ts';
import { coded } from './sqlite.ts';

/** How long a statement waits for another connection's lock. */
const LOCK_WAIT_MS = 5000;

/** Text, because the executable would not find a file. It is sent a transaction, or null at the end. */
const THREAD = `
const { parentPort, workerData } = require('node:worker_threads');
const { DatabaseSync } = require('node:sqlite');
const db = new DatabaseSync(workerData, { timeout: ${LOCK_WAIT_MS} });
db.exec('PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = ${LOG_PAGES_MAX}');
const prepared = new Map();
function run({ sql, args = [] }) {
  if (!prepared.has(sql)) prepared.set(sql, db.prepare(sql));
  prepared.get(sql).run(...args);
}
function transact(statements) {
  db.exec('BEGIN IMMEDIATE');
  try {
    for (const statement of statements) run(statement);
    db.exec('COMMIT');
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}
function end() {
  db.exec('PRAGMA wal_checkpoint(PASSIVE)');
  db.close();
}
parentPort.on('message', (statements) => {
  try {
    statements === null ? end() : transact(statements);
    parentPort.postMessage(null);
  } catch ({ message, errcode }) {
    parentPort.postMessage({ message, errcode });
  }
});`;

export interface WritingThread {
  /**
   * Runs statements in one transaction, all or none, which a power cut may undo. The next may be given when this one has
   * ended. Throws what a Database does.
   */
  writeAll(statements: readonly Statement[]): Promise<void>;
  /** Ends it, after the log is in the file: the next commit in the event loop need not do that. */
  end(): Promise<void>;
}

/** Starts the thread, which takes 15 MB of memory. The file must be there. */
export function startWritingThread(path: string): WritingThread {
  const thread = new Worker(THREAD, { eval: true, workerData: path });
  thread.unref();

  async function send(statements: readonly Statement[] | null): Promise<void> {
    const answered = once(thread, 'message');
    thread.postMessage(statements);
    const [failure] = (await answered) as [{ readonly message: string; readonly errcode?: number } | null];
    if (failure === null) return;
    const error = coded(Object.assign(new Error(failure.message), failure));
    throw outageOf(error) ?? error;
  }

  return {
    writeAll: send,
    async end() {
      await send(null);
      await thread.terminate();
    },
  };
}
