// Copies a database's file as it is, page by page, while servers write to it.
//
// While a reading transaction is open, nobody begins the log anew that it needs, and what is moved from the log into the
// file stands in the log, too. So the file, copied first, and the log, copied after it, are together the database as it was
// when the log was copied. Who begins the log anew beside a reader that needs none of it moves nothing meanwhile: then the
// log is copied again.

import { realpathSync, statSync } from 'node:fs';
import { type FileHandle, open, truncate } from 'node:fs/promises';
import { makePrivate } from '../../ground/private-files.ts';
import { outageIn } from '../../ground/result.ts';
import type { Database } from '../database.ts';
import { pauseAfter } from './pieces.ts';

const PIECE_BYTES = 4 * 1024 * 1024;
const SHORTENED_BYTES = 16 * 1024 * 1024;
/** The log begins with it; it is another one each time the log is begun anew. */
const HEADER_BYTES = 32;

/**
 * Copies the database, whose file is `source`, at `path`, into `copy` and `copy-wal`. Closing `source` would release the
 * locks that this process holds on it (POSIX): the caller closes it, after the database.
 */
export async function copyPages(db: Database, source: FileHandle, path: string, copy: string): Promise<void> {
  const moveLog = () => db.read({ sql: 'PRAGMA main.wal_checkpoint(PASSIVE)' }).catch(outageIn);
  await moveLog();
  await db.read({ sql: 'BEGIN' });
  await db.read({ sql: 'SELECT 1 FROM sqlite_master' }); // begins to read
  await copyOntoDisk(source, copy);
  await copyLog(`${realpathSync(path)}-wal`, `${copy}-wal`);
  await db.read({ sql: 'COMMIT' });
  await moveLog(); // or whoever writes next moves in his event loop what was written meanwhile
}

async function copyLog(path: string, copy: string): Promise<void> {
  const log = await open(path).catch(() => null);
  if (log === null) return; // nobody has written, or the file has a journal of another kind
  try {
    makePrivate(copy);
    for (let before = ''; before !== (await headerOf(log)); ) {
      before = await headerOf(log);
      await copyOntoDisk(log, copy);
    }
  } finally {
    await log.close();
  }
}

async function headerOf(log: FileHandle): Promise<string> {
  const { buffer, bytesRead } = await log.read(new Uint8Array(HEADER_BYTES), 0, HEADER_BYTES, 0);
  return `header ${bytesRead} ${buffer}`;
}

/** Copies a file in pieces that are on the disk before the next: else commits of servers would wait for all of it. */
export async function copyOntoDisk(source: FileHandle, to: string): Promise<void> {
  const copy = await open(to, 'w');
  try {
    const { size } = await source.stat(); // of a log that grows, so much is enough
    const piece = new Uint8Array(PIECE_BYTES);
    for (let at = 0; at < size; ) {
      const beganMs = performance.now();
      const { bytesRead } = await source.read(piece, 0, Math.min(PIECE_BYTES, size - at), at);
      if (bytesRead === 0) return;
      await copy.writeFile(piece.subarray(0, bytesRead));
      await copy.datasync();
      at += bytesRead;
      await pauseAfter(beganMs);
    }
  } finally {
    await copy.close();
  }
}

/** Shortens a file to nothing, in pieces: commits of servers may wait while a disk takes back the room of a large one. */
export async function shorten(path: string): Promise<void> {
  for (let size = statSync(path).size; size > 0; ) {
    const beganMs = performance.now();
    size = Math.max(0, size - SHORTENED_BYTES);
    await truncate(path, size);
    await pauseAfter(beganMs);
  }
}
