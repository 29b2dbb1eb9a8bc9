// Opens the configured store: a file, or a remote database with or without a replica.

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { singleFlight } from '../ground/cache.ts';
import { type FeedPage, isLost, type ReachedPosition } from '../ground/change-feed.ts';
import { makeOwn } from '../ground/private-files.ts';
import { outageIn, StoreOutage } from '../ground/result.ts';
import type { Cancel, Clock } from '../ground/runtime.ts';
import { expected, reasonOf } from '../ground/text.ts';
import type { DerivedKeys } from '../keys/store.ts';
import type { Log } from '../watch/log.ts';
import { createOutageLog } from '../watch/outage.ts';
import { countsStore } from './counts.ts';
import { type Database, type DatabaseConfig, firstOf, nowMsOf, WRITE_PROBE } from './database.ts';
import { keyChanges } from './key-changes.ts';
import { type KeyLookup, keyReads } from './key-reads.ts';
import type { RemoteOptions } from './remote/open.ts';
import { createUpkeep, type KeptDays, type Upkeep } from './upkeep.ts';

/**
 * Makes the folder for the database's files. Returns it if it is new and the database is a file. Throws an Error that
 * names the variable.
 */
export function prepareDataFolder({ database }: { readonly database: DatabaseConfig }): string | null {
  const isFile = database.mode === 'embedded';
  const file = isFile ? database.path : database.replicaFile;
  if (file === null) return null;
  const folder = dirname(file);
  const isNew = !existsSync(folder);
  try {
    makeOwn(folder);
  } catch (error) {
    const what = `a folder that can be made and written, but ${reasonOf(error)}`;
    throw new Error(expected(isFile ? 'DATABASE_URL' : 'DATABASE_REPLICA_FILE', what, folder));
  }
  return isNew && isFile ? folder : null;
}

/** The rows of server_secrets (db/README.md). */
type ServerSecret = 'request_state' | 'client_id';

export interface StoreOptions extends RemoteOptions {
  /** What the upkeep leaves; by default there is no upkeep: a command may not know for how long servers keep what. */
  readonly kept?: KeptDays | undefined;
  /** Find keys by other hashes than those of their secrets; by default none do. */
  readonly lookups?: readonly KeyLookup[];
  /** Creates the store of keys that are derived from others; by default there are none. */
  readonly createDerived?: (db: Database) => DerivedKeys;
}

const NO_DERIVED_KEYS: DerivedKeys = {
  listChildren: async () => [],
  countChildren: async () => new Map(),
  findChildren: async () => [],
  endChildren: async () => [],
};

export type Store = Awaited<ReturnType<typeof prepareStore>>;

export async function openStore(config: DatabaseConfig, options: StoreOptions): Promise<Store> {
  const store = await prepareStore(config, options);
  await store.open();
  return store;
}

/** Creates a store that touches no database until it is opened. */
export async function prepareStore(config: DatabaseConfig, options: StoreOptions) {
  const { clock, log, kept } = options;
  const { db: unwatched, usesPerWrite, replica, open, close } = await openingOf(config, options);
  const writes = watchWrites(unwatched, options);
  const { db } = writes;
  let upkeep: Upkeep | undefined;

  /** Stops the upkeep and releases files and connections. */
  async function closeAll(): Promise<void> {
    upkeep?.stop();
    writes.stop();
    await close();
  }

  return {
    ...keyReads(db, replica, options.lookups ?? []),
    ...keyChanges(db),
    ...countsStore(db, usesPerWrite),
    derived: options.createDerived?.(db) ?? NO_DERIVED_KEYS,
    db,
    mode: replica === null ? config.mode : 'replica',
    replicaState: replica?.state,
    nowMs: () => nowMsOf(db),
    /** Writes to the database without changing a key. Throws a StoreOutage if it accepts no writes. */
    probeWrite: async () => void (await db.write(WRITE_PROBE)),
    /** Returns false while the last write failed for lack of space or rights. */
    writable: writes.writable,
    /** Returns a secret that all processes on the database share. */
    async serverSecret(name: ServerSecret): Promise<string> {
      const rows = await db.read({ sql: 'SELECT value FROM server_secrets WHERE name = ?', args: [name] });
      return String(firstOf(rows).value);
    },
    /** Passes a page of the change feed to the replica and the upkeep. */
    onPage(reached: ReachedPosition, page: FeedPage): void {
      if (reached.databaseId !== '' && isLost(reached, page)) replica?.discard();
      upkeep?.onPage(page);
    },
    /**
     * Opens and migrates the database; a remote one that is out of reach as soon as it responds. Throws
     * UnusableDatabase, or an Error that says why it can't be opened, and closes the store.
     */
    async open(): Promise<void> {
      try {
        await open();
      } catch (error) {
        await closeAll();
        throw error;
      }
      if (kept !== undefined) upkeep = createUpkeep(db, { clock, log, ...kept });
    },
    close: closeAll,
  };
}

async function openingOf(config: DatabaseConfig, options: StoreOptions) {
  if (config.mode === 'embedded') {
    return (await import('./embedded/open.ts')).embeddedStore(config.path, options.kept !== undefined);
  }
  return (await import('./remote/open.ts')).remoteStore(config, options);
}

// Tracks whether the database accepts writes: not from a write that failed for lack of space or rights until a probe
// succeeds. Meanwhile each write waits for a probe, shared by concurrent ones, so that a full disk has one write to
// refuse. Known keys still verify, so nothing else would show it.

/** SQLite's codes, here or on a server: no space, no rights, a failing disk. BLOCKED: by the server's operator. */
const NOT_WRITABLE = /^(BLOCKED|SQLITE_(FULL|READONLY|PERM|IOERR|CANTOPEN))/;

/** How soon it probes again, because a process that writes nothing would not notice new space. */
const PROBE_AGAIN_AFTER_MS = 5000;

/** Returns `db` with monitored writes. */
function watchWrites(db: Database, { clock, log }: { readonly clock: Clock; readonly log: Log }) {
  const outageLog = createOutageLog(log, { on: 'database not writable', off: 'database writable again' });
  let refusal: StoreOutage | null = null;
  let stopped = false;
  let cancelProbe: Cancel | undefined;

  function failed(error: unknown): never {
    if (stopped) throw error; // while closing, failures say nothing about the disk
    if (error instanceof StoreOutage && (error.kind === 'refused' || NOT_WRITABLE.test(error.code))) {
      refusal = error;
      outageLog.began(error.reason);
    }
    if (refusal !== null) {
      cancelProbe?.();
      cancelProbe = clock.after(PROBE_AGAIN_AFTER_MS, () => void probing.run().catch(outageIn));
    }
    throw error;
  }

  const probing = singleFlight(async () => {
    await db.write(WRITE_PROBE).catch(failed);
    refusal = null;
    outageLog.ended();
    cancelProbe?.();
  });

  async function watched<T>(write: () => Promise<T>): Promise<T> {
    if (refusal !== null) await probing.run();
    return write().catch(failed);
  }

  const watchedDb: Database = {
    ...db,
    write: (statement) => watched(() => db.write(statement)),
    writeAll: (statements) => watched(() => db.writeAll(statements)),
  };
  return {
    db: watchedDb,
    writable: () => refusal === null,
    stop() {
      stopped = true;
      cancelProbe?.();
    },
  };
}
