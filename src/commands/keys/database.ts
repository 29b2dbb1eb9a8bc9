// Opens the configured database for a verb, beside running servers.

import { hash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { resolve } from 'node:path';
import type { Config } from '../../config/config.ts';
import { createChildStore } from '../../doors/children/index.ts';
import { withBackup } from '../../doors/copies/index.ts';
import type { InvalidInput } from '../../ground/problem.ts';
import { type Sha256, systemClock } from '../../ground/runtime.ts';
import { createServerAddress } from '../../ground/server-address.ts';
import { reasonOf } from '../../ground/text.ts';
import type { Origin } from '../../keys/actor.ts';
import { type DatabaseConfig, UnusableDatabase } from '../../store/database.ts';
import { isAtRest, mustBeFile } from '../../store/embedded/open.ts';
import { openStore, type Store } from '../../store/open.ts';
import { createLog } from '../../watch/log.ts';
import { CommandError, configOf, type Io, type IoStreams, UsageError } from '../io.ts';
import { withPrivateFolder } from './private-folder.ts';

export const sha256: Sha256 = (text, encoding) => hash('sha256', text, encoding);

/** Returns who runs a command: KEYS_ACTOR, or the system's name for the user, who may have none in a container. */
export function byCommand({ env }: Pick<IoStreams, 'env'>): Origin {
  return { how: 'command', actor: env.KEYS_ACTOR || userName(), requestId: null, address: null };
}

// Looks first where names are kept: Bun's userInfo repeats the variable USER, and says "unknown" without it.
function userName(): string {
  const uid = process.getuid?.();
  return listedName(uid) ?? nameBySystem() ?? `uid ${uid}`;
}

/** Returns the user's name as the runtime finds it; undefined if there is none, of which Deno makes an error. */
function nameBySystem(): string | undefined {
  try {
    const { username } = userInfo();
    return username === NO_NAME ? undefined : username;
  } catch {
    return undefined;
  }
}

/** What Bun says. */
const NO_NAME = 'unknown';
const USERS_FILE = '/etc/passwd';

function listedName(uid: number | undefined): string | undefined {
  if (uid === undefined || !existsSync(USERS_FILE)) return undefined;
  const users = readFileSync(USERS_FILE, 'utf8').split('\n');
  return users.map((line) => line.split(':')).find((fields) => fields[2] === `${uid}`)?.[0];
}

/** Creates a log on stderr, only for bugs. A CommandError reports failures. */
export const stderrLog = ({ stderr }: IoStreams) =>
  createLog({ level: 'error', clock: systemClock, write: async (chunk) => void stderr.write(chunk) });

/** Returns what decides about the rules of an opened database. */
export const rulesIn = ({ db, findOwn }: Store, config: Config, io: IoStreams) => ({
  db,
  findOwn,
  config,
  address: createServerAddress(config),
  clock: systemClock,
  log: stderrLog(io),
});

/**
 * Opens the configured database, without any replica, for `use`, and closes it. Creates no file: at a mistyped path all
 * keys would seem to be gone.
 */
export async function withStore<T>(
  io: Io,
  use: (store: Store, config: Config) => Promise<T>,
  config = configOf(io),
): Promise<T> {
  const { database } = config;
  mustExist(database);
  const log = stderrLog(io);
  const primary = database.mode === 'remote' ? { ...database, replicaFile: null } : database;
  const store = await openStore(primary, {
    clock: systemClock,
    log,
    createDerived: createChildStore,
  }).catch((error) => {
    throw new CommandError(reasonOf(error));
  });
  try {
    return await use(store, config);
  } finally {
    await store.close();
    await log.flush();
  }
}

/** Does the same for a verb that only reads: a backup stays as it is, and a migrated copy of it is opened. */
export async function withStoreToRead<T>(io: Io, use: (store: Store, config: Config) => Promise<T>): Promise<T> {
  const config = configOf(io);
  const { database } = config;
  if (database.mode === 'embedded' && exists(database) && (await isAtRest(database.path))) {
    const useCopy = ({ path }: { readonly path: string }) =>
      withStore(io, use, { ...config, database: { ...database, path } });
    return withPrivateFolder(io, (folder) => withBackup(database.path, folder, useCopy)).catch((error) => {
      throw error instanceof UnusableDatabase ? new CommandError(error.message) : error;
    });
  }
  return withStore(io, use, config);
}

/** Returns whether the database exists. An empty file isn't one yet. Throws a CommandError if nobody can tell. */
export function exists(database: DatabaseConfig): boolean {
  if (database.mode === 'remote') return true;
  try {
    return (mustBeFile(database.path)?.size ?? 0) > 0;
  } catch (error) {
    throw new CommandError(reasonOf(error));
  }
}

export function mustExist(database: DatabaseConfig): void {
  if (database.mode === 'remote' || exists(database)) return;
  throw new CommandError(
    `DATABASE_URL: there is no database at ${JSON.stringify(resolve(database.path))}; a server makes it`,
  );
}

const OPTIONS: Readonly<Record<string, string>> = { name: '--name', scopes: '--scope', expiresInDays: '--days' };

/** Returns the error about a key's fields, by the options that gave them. */
export const usageErrorOf = ({ issues }: InvalidInput): UsageError => {
  const said = issues.map(({ path, message }) => `${OPTIONS[path.split('.', 1)[0] ?? ''] ?? path}: ${message}`);
  return new UsageError(said.join('\n'));
};
