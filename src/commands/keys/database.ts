// The database of the configuration, opened for a verb beside running servers.

import { hash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { type Config, parseConfig } from '../../config/config.ts';
import type { DatabaseConfig } from '../../config/database.ts';
import type { Env } from '../../config/env.ts';
import type { Origin } from '../../keys/actor.ts';
import type { Result } from '../../lib/result.ts';
import { type Sha256, systemClock } from '../../lib/runtime.ts';
import { reasonOf } from '../../lib/text.ts';
import { createLog } from '../../log/log.ts';
import type { Problem } from '../../problem.ts';
import { openStore, type Store } from '../../store/open.ts';
import { CommandError } from './verb.ts';

export const sha256: Sha256 = (text, encoding) => hash('sha256', text, encoding);

export const BY_COMMAND: Origin = { how: 'command', actor: null, requestId: null, address: null };

/** Of the server, without what it verifies user tokens with, unless that is asked for. */
export function configOf(env: Env, options = { verifiesUsers: false }): Config {
  const parsed = parseConfig(env, options);
  if (!parsed.ok) throw new CommandError(parsed.error.join('\n'));
  return parsed.value;
}

/** Only bugs: what fails is said to the person. */
export const stderrLog = () =>
  createLog({ level: 'error', clock: systemClock, write: async (chunk) => void process.stderr.write(chunk) });

/**
 * Runs `use` on the database of the configuration, past any replica, and closes it. It makes no file: at a mistyped path
 * all keys would seem to be gone.
 */
export async function withStore<T>(
  env: Env,
  use: (store: Store, config: Config) => Promise<T>,
  config = configOf(env),
): Promise<T> {
  const { database } = config;
  mustExist(database);
  const log = stderrLog();
  const primary = database.mode === 'remote' ? { ...database, replicaFile: null } : database;
  const store = await openStore(primary, { clock: systemClock, log, eventDays: config.eventDays }).catch((error) => {
    throw new CommandError(reasonOf(error));
  });
  try {
    return await use(store, config);
  } finally {
    await store.close();
    await log.flush();
  }
}

/** An empty file is none yet: to open it would make one. */
export function mustExist(database: DatabaseConfig): void {
  if (database.mode === 'remote' || (existsSync(database.path) && statSync(database.path).size > 0)) return;
  throw new CommandError(`DATABASE_URL: there is no database at ${JSON.stringify(database.path)}; a server makes it`);
}

/** The value, or an end with what went wrong. */
export function orFail<T>(result: Result<T, Problem>): T {
  if (result.ok) return result.value;
  const { error } = result;
  throw new CommandError('reason' in error ? `${error.code}: ${error.reason}` : error.code);
}
