// Declares where the keys are: in a file, or in a remote database with or without a replica.

import type { ReachedPosition } from '../ground/change-feed.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { Row, Statement } from './database.ts';

export interface RemoteConfig {
  readonly mode: 'remote';
  readonly url: string;
  readonly authToken: string | null;
  readonly replicaFile: string | null;
}

export interface EmbeddedConfig {
  readonly mode: 'embedded';
  readonly path: string;
}

export type DatabaseConfig = EmbeddedConfig | RemoteConfig;

/** A local copy of a remote database's keys, for reads. */
export interface Replica {
  /** Opens it, once the primary is known to respond. */
  open(): void;
  /** Reads one statement; null if the replica does not respond. */
  read(statement: Statement): Promise<readonly Row[] | null>;
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
export type CreateReplica = (options: ReplicaOptions) => Replica;
