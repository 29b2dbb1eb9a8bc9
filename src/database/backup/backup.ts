// A consistent copy of the database, as a file, also of a remote one.

import { UnusableDatabase } from '../database.ts';
import { embeddedDatabase } from '../embedded/database.ts';
import type { DatabaseConfig } from '../place.ts';
import { remoteDatabase } from '../remote/database.ts';
import { inspect } from '../schema.ts';

export interface Copying {
  readonly config: DatabaseConfig;
  /** Must not exist. Its owner alone can read it. */
  readonly file: string;
  /** A private one for copies, which the caller removes. */
  readonly folder: string;
}

/** Copies all but the secrets of codes (copier.ts), in a thread of its own. Servers may run meanwhile. */
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

/** Throws an error of ours, which says what is wrong. Does not migrate: backups are made before that. */
async function assertOurs(config: DatabaseConfig): Promise<void> {
  const db = config.mode === 'embedded' ? embeddedDatabase(config.path) : await remoteDatabase(config);
  try {
    if ((await inspect(db)) === 0) throw new UnusableDatabase('DATABASE_URL: the database is empty');
  } finally {
    db.close();
  }
}
