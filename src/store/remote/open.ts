// Opens a remote database: at the start if it responds, otherwise when it first does, and again when it is replaced by an
// empty one. Until then every statement fails with the reason.

import { singleFlight } from '../../ground/cache.ts';
import type { ReachedPosition } from '../../ground/change-feed.ts';
import { isOutage, outageIn, StoreOutage } from '../../ground/result.ts';
import { type Clock, type CreateHttpClient, withTimeout } from '../../ground/runtime.ts';
import { shownUrl } from '../../ground/urls.ts';
import type { ReplicaReader } from '../../keys/store.ts';
import type { Log } from '../../watch/log.ts';
import { createOutageLog } from '../../watch/outage.ts';
import {
  type Database,
  type RemoteConfig,
  type Row,
  type Statement,
  UnusableDatabase,
  WRITE_PROBE,
} from '../database.ts';
import { migrate } from '../schema.ts';
import { remoteDatabase } from './database.ts';

/** How long the start waits for a primary that hangs before it goes on without it. */
const START_WAIT_MS = 2000;

/** 2 ms of the primary's time. Many, because it may be far away, and waiting for it delays nothing. */
const USES_PER_WRITE = 1000;

/** A local copy of a remote database's keys, for reads. */
export interface Replica {
  /** Opens it, once the primary is known to respond. */
  open(): void;
  /** Reads one statement; null if the replica is elsewhere than its reader, or does not respond. */
  read(statement: Statement, reader: ReplicaReader): Promise<readonly Row[] | null>;
  /** Returns its state, as seen by a process that has seen everything up to `reached`. */
  state(reached: ReachedPosition): Promise<string>;
  /** Drops the replica's data after the primary was replaced. */
  discard(): void;
  close(): Promise<void>;
}

export interface ReplicaOptions {
  readonly file: string;
  readonly readPrimary: (statement: Statement) => Promise<readonly Row[]>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Creates a replica that is opened later. Throws if its file belongs to another program, or is a database of keys. */
type CreateReplica = (options: ReplicaOptions) => Replica;

export interface RemoteOptions {
  readonly clock: Clock;
  /** Multiplies the time that a statement may take, for tests on busy machines. */
  readonly storePatience?: number | undefined;
  readonly createHttpClient?: CreateHttpClient | undefined;
  readonly log: Log;
  readonly createReplica?: CreateReplica | undefined;
}

export async function remoteStore(config: RemoteConfig, options: RemoteOptions) {
  const { clock, storePatience, createHttpClient, log, createReplica } = options;
  const primary = await remoteDatabase(config, storePatience, createHttpClient);
  const { replicaFile: file } = config;
  // Opened later: opening hangs while the primary does, so it waits for a response.
  const replica = (file !== null && createReplica?.({ clock, log, file, readPrimary: primary.read })) || null;
  const { db, open } = openedLater(primary, () => replica?.open(), log);
  return {
    db,
    usesPerWrite: USES_PER_WRITE,
    replica,
    async open() {
      // A wrong token or address is permanent; a primary that is away may come back, and the rest works meanwhile.
      await open(START_WAIT_MS).catch((error) => {
        const { kind, reason } = outageIn(error);
        if (kind === 'refused') throw new Error(`${reason} (${shownUrl(config.url)})`);
      });
    },
    async close() {
      await db.close();
      await replica?.close();
    },
  };
}

/** Wraps `primary` so that its statements open it if need be. Calls `onOpen` after each opening. */
function openedLater(primary: Database, onOpen: () => void, log: Log) {
  let isOpen = false;
  const outage = createOutageLog(log, { on: 'database not opened', off: 'database opened', eachReason: true });

  const opening = singleFlight(async () => {
    await prepare(primary);
    outage.ended();
    isOpen = true;
    onOpen();
  });

  /** Opens it, within `withinMs` if given. Throws UnusableDatabase, or a StoreOutage. */
  async function open(withinMs?: number): Promise<void> {
    try {
      const opened = opening.run().then(() => true);
      if (await (withinMs === undefined ? opened : withTimeout(opened, withinMs, false))) return;
      throw new StoreOutage('the database takes long to open');
    } catch (error) {
      if (error instanceof StoreOutage) outage.began(error.reason);
      throw error;
    }
  }

  /** Throws an unusable database as an outage: it only ends the program at the start. */
  function unusable(error: unknown): never {
    if (!(error instanceof UnusableDatabase)) throw error;
    outage.began(error.message);
    throw new StoreOutage(error.message, 'refused');
  }

  async function through<T>(run: () => Promise<T>, withinMs?: number): Promise<T> {
    if (!isOpen) await open(withinMs).catch(unusable);
    try {
      return await run();
    } catch (error) {
      if (isOutage(error, 'no_schema')) isOpen = false; // it was replaced meanwhile
      throw error;
    }
  }

  const db: Database = {
    read: (statement, withinMs) => through(() => primary.read(statement, withinMs), withinMs),
    write: (statement) => through(() => primary.write(statement)),
    writeAll: (statements) => through(() => primary.writeAll(statements)),
    close: primary.close,
  };
  return { db, open };
}

/** Migrates, and probes writing. Throws a StoreOutage or UnusableDatabase. */
async function prepare(db: Database): Promise<void> {
  await migrate(db);
  await db.write(WRITE_PROBE).catch((error) => {
    // After any other failure, such as a block by the operator, reads still work.
    if (outageIn(error).kind === 'refused') throw error;
  });
}
