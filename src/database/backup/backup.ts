// A consistent copy of the database, as a file, also of a remote one.

import { join } from 'node:path';
import type { DatabaseConfig, RemoteConfig } from '../../config/database.ts';
import { expected } from '../../config/expected.ts';
import { makePrivate } from '../../lib/private-files.ts';
import { errorReason, UnusableDatabase } from '../database.ts';
import { embeddedDatabase } from '../embedded/database.ts';
import type { NativeConnection } from '../native.ts';
import { remoteDatabase } from '../remote/database.ts';
import { inspect } from '../schema.ts';
import { onFile } from './file.ts';

/** The driver quotes whole responses. */
const REASON_CHARS_MAX = 200;

export interface Copying {
  readonly config: DatabaseConfig;
  /** Must not exist. Its owner alone can read it. */
  readonly file: string;
  /** A private one for copies, which the caller removes. */
  readonly folder: string;
}

/** Writes all there is into a file, in a thread of its own. Servers may run meanwhile. */
export async function backUp(copying: Copying): Promise<void> {
  await assertOurs(copying.config);
  const thread = new Worker(new URL('./copier.ts', import.meta.url), { type: 'module' });
  const failure = await new Promise<string | null>((resolve) => {
    thread.onmessage = ({ data }: MessageEvent<string | null>) => resolve(data);
    thread.onerror = ({ message }) => resolve(message);
    thread.postMessage(copying);
  });
  if (failure !== null) throw new Error(failure);
}

/** What the thread does. */
export async function copyAll({ config, file, folder }: Copying): Promise<void> {
  if (config.mode === 'embedded') return vacuumInto(config.path, file);
  const copy = join(folder, 'copy.db');
  replicate(config, copy);
  vacuumInto(copy, file);
}

/** Says what is wrong in words of ours; does not migrate: a backup is what one makes before. */
async function assertOurs(config: DatabaseConfig): Promise<void> {
  const db = config.mode === 'embedded' ? embeddedDatabase(config.path) : await remoteDatabase(config);
  try {
    if ((await inspect(db)) === 0) throw new UnusableDatabase('DATABASE_URL: the database is empty');
  } finally {
    db.close();
  }
}

function replicate(config: RemoteConfig, copy: string): void {
  try {
    onFile(copy, ({ pull }) => pull(), { primary: config });
  } catch (error) {
    const reason = errorReason(error).slice(0, REASON_CHARS_MAX);
    throw new Error(expected('DATABASE_URL', `a database that can be copied, as replicas do, but ${reason}`));
  }
}

function vacuumInto(path: string, file: string): void {
  makePrivate(file);
  onFile(path, ({ run }) => void run({ sql: 'VACUUM INTO ?', args: [file] }));
  onFile(file, leaveOutCodeSecrets);
}

/** They are for an hour, and with one of them a code that somebody logged would open: a backup is kept for longer. */
function leaveOutCodeSecrets({ all, run }: NativeConnection): void {
  if (all({ sql: "SELECT 1 FROM sqlite_master WHERE name = 'code_secrets'" }).length === 0) return; // of a version before
  all({ sql: 'PRAGMA journal_mode = MEMORY' }); // no other file has them for a moment
  all({ sql: 'PRAGMA secure_delete = ON' });
  run({ sql: 'DELETE FROM code_secrets' });
}
