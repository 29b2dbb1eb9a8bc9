// The files of an embedded replica: whose they are, and whether they may be used again.
// The driver writes pages and a note of how far it got, and neither waits for the disk. After a power cut the note may
// be ahead of the pages: changes would be missing permanently while later ones arrive, and a revoked key could look
// active in a replica that seems up to date. So it is used again only if it was closed in order, flushed, and not
// touched since.

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { makePrivate } from '../../lib/private-files.ts';

/** Beside the file itself: write-ahead log, its shared index, and the driver's note of how far it got. */
const PARTS = ['', '-wal', '-shm', '-client_wal_index'];
const FLUSHED_PARTS = ['', '-wal', '-client_wal_index'];
const PROGRESS = '-client_wal_index';
const CLOSED_NOTE = '-closed';

/** A database that the replica's owner keeps locked: however the owner ends, the system releases the lock. */
export const ownerFile = (file: string): string => `${file}-owner`;

/** Removes the replica unless it was closed in order, and says whether it stays. From here on it counts as open. */
export function keepOrRemove(file: string): boolean {
  const keeps = readText(`${file}${CLOSED_NOTE}`) === stateOf(file);
  if (!keeps) removeReplica(file);
  for (const part of ['', PROGRESS]) makePrivate(file + part); // the log and its index become like the file
  rmSync(`${file}${CLOSED_NOTE}`, { force: true });
  flush(dirname(file));
  return keeps;
}

export function removeReplica(file: string): void {
  for (const part of [...PARTS, CLOSED_NOTE]) rmSync(file + part, { recursive: true, force: true });
}

/** After the replica was closed: lets the next start use it again. */
export function noteClosed(file: string): void {
  for (const part of FLUSHED_PARTS) flush(file + part);
  writeFileSync(`${file}${CLOSED_NOTE}`, stateOf(file), { mode: 0o600 });
  flush(`${file}${CLOSED_NOTE}`);
}

/** Changes whenever the replica does. */
function stateOf(file: string): string {
  const sizes = FLUSHED_PARTS.map((part) => statSync(file + part, { throwIfNoEntry: false })?.size ?? -1);
  const progress = existsSync(file + PROGRESS) ? readFileSync(file + PROGRESS).toString('hex') : 'none';
  return `${sizes.join(' ')} ${progress}\n`;
}

function flush(path: string): void {
  if (!existsSync(path)) return;
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

const readText = (path: string): string | null => (existsSync(path) ? readFileSync(path, 'utf8') : null);
