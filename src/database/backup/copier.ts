// The thread that copies a database into a file. The driver blocks its thread, and the command has to obey signals
// meanwhile. Handles one message.

import { join } from 'node:path';
import { expected } from '../../lib/expected.ts';
import { makePrivate } from '../../lib/private-files.ts';
import { reasonOf } from '../../lib/text.ts';
import { errorReason } from '../database.ts';
import type { SqliteConnection } from '../embedded/sqlite.ts';
import { openNative } from '../native.ts';
import type { RemoteConfig } from '../place.ts';
import type { Copying } from './backup.ts';
import { onFile } from './file.ts';

/** The driver quotes whole responses. */
const REASON_CHARS_MAX = 200;

interface Port {
  onmessage: (event: MessageEvent<Copying>) => void;
  /** What went wrong, or null. */
  postMessage(failure: string | null): void;
  close(): void;
}

const port = self as unknown as Port;

port.onmessage = ({ data }) => {
  try {
    copyAll(data);
    port.postMessage(null);
  } catch (error) {
    port.postMessage(reasonOf(error));
  }
  port.close();
};

function copyAll({ config, file, folder }: Copying): void {
  if (config.mode === 'embedded') {
    vacuumInto(config.path, file);
  } else {
    const copy = join(folder, 'copy.db');
    replicate(config, copy);
    vacuumInto(copy, file);
  }
}

function replicate(config: RemoteConfig, copy: string): void {
  try {
    const replica = openNative(copy, { primary: config });
    replica.pull();
    replica.close();
  } catch (error) {
    const reason = errorReason(error).slice(0, REASON_CHARS_MAX);
    throw new Error(expected('DATABASE_URL', `a database that can be copied, as replicas do, but ${reason}`));
  }
}

function vacuumInto(path: string, file: string): void {
  makePrivate(file);
  onFile(path, ({ run }) => void run({ sql: 'VACUUM INTO ?', args: [file] }));
  onFile(file, leaveOutCodes);
}

/** Codes end in minutes: none is good again when the backup is put back, and none is kept with it. */
function leaveOutCodes({ all, run }: SqliteConnection): void {
  if (all({ sql: "SELECT 1 FROM sqlite_master WHERE name = 'codes'" }).length === 0) return; // an older version
  all({ sql: 'PRAGMA journal_mode = MEMORY' }); // no other file has them for a moment
  all({ sql: 'PRAGMA secure_delete = ON' });
  run({ sql: 'DELETE FROM codes' });
  run({ sql: 'DELETE FROM code_secrets' });
}
