// Copies a database's file as it is, page by page, while servers write to it.
//
// While a read transaction is open, nobody resets the write-ahead log (WAL) that it needs, and what a checkpoint moves from
// the WAL to the file is still in the WAL, too. So the file, copied first, and the WAL, copied after it, together are the
// database as of the copy of the WAL. A writer may reset the WAL beside a reader that needs none of it, and then checkpoints
// nothing meanwhile: then the WAL is copied again.

import { realpathSync, statSync } from 'node:fs';
import { type FileHandle, open, truncate } from 'node:fs/promises';
import { makePrivate } from '../../ground/private-files.ts';
import { outageIn } from '../../ground/result.ts';
import { sleep } from '../../ground/runtime.ts';
import type { Database } from '../../store/database.ts';

const PAUSE_MS_MAX = 100;
const PIECE_BYTES = 4 * 1024 * 1024;
const SHORTENED_BYTES = 16 * 1024 * 1024;
/** The WAL's header, which changes each time the WAL is reset. */
const HEADER_BYTES = 32;

/**
 * Copies the database at `path`, whose file is `source`, into `copy` and `copy-wal`. Closing `source` would release the
 * locks that this process holds on it (POSIX), so the caller closes it, after the database.
 */
export async function copyPages(db: Database, source: FileHandle, path: string, copy: string): Promise<void> {
  const checkpoint = () => db.read({ sql: 'PRAGMA main.wal_checkpoint(PASSIVE)' }).catch(outageIn);
  await checkpoint();
  await db.read({ sql: 'BEGIN' });
  await db.read({ sql: 'SELECT 1 FROM sqlite_master' }); // begins the read transaction
  await copyOntoDisk(source, copy);
  await copyLog(`${realpathSync(path)}-wal`, `${copy}-wal`);
  await db.read({ sql: 'COMMIT' });
  await checkpoint(); // or the next writer would checkpoint in its event loop what was written meanwhile
}

async function copyLog(path: string, copy: string): Promise<void> {
  await using log = await open(path).catch(() => null);
  if (log === null) return; // nobody has written, or the file has another journal mode
  makePrivate(copy);
  for (let before = ''; before !== (await headerOf(log)); ) {
    before = await headerOf(log);
    await copyOntoDisk(log, copy);
  }
}

async function headerOf(log: FileHandle): Promise<string> {
  const { buffer, bytesRead } = await log.read(new Uint8Array(HEADER_BYTES), 0, HEADER_BYTES, 0);
  return `header ${bytesRead} ${buffer}`;
}

/** Copies a file in pieces, each synced before the next: otherwise servers' commits would wait for all of it. */
export async function copyOntoDisk(source: FileHandle, to: string): Promise<void> {
  await using copy = await open(to, 'w');
  const { size } = await source.stat(); // of a growing log, this much is enough
  const piece = new Uint8Array(PIECE_BYTES);
  for (let at = 0; at < size; ) {
    const beganMs = performance.now();
    const { bytesRead } = await source.read(piece, 0, PIECE_BYTES, at);
    if (bytesRead === 0) return;
    await copy.writeFile(piece.subarray(0, bytesRead));
    await copy.datasync();
    at += bytesRead;
    await pauseAfter(beganMs);
  }
}

/** Truncates a file in pieces: servers' commits may wait while a disk frees the space of a large one. */
export async function shorten(path: string): Promise<void> {
  for (let size = statSync(path).size; size > 0; ) {
    const beganMs = performance.now();
    size = Math.max(0, size - SHORTENED_BYTES);
    await truncate(path, size);
    await pauseAfter(beganMs);
  }
}

/** Pauses for as long as a piece took that began then (`performance.now`): the disk serves others meanwhile. */
const pauseAfter = (beganMs: number): Promise<void> => sleep(Math.min(performance.now() - beganMs, PAUSE_MS_MAX));
