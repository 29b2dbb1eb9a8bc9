// Implements Database over an SQLite file, which other processes may have open, too.

import { nextTurn } from '../../ground/runtime.ts';
import type { Database, Statement, Written } from '../database.ts';
import {
  Connection,
  type Durability,
  isBusy,
  outageOf,
  pauseWhileLocked,
  RETRY_MS_MAX,
  type SqliteConnection,
} from './sqlite.ts';
import { createFileThread, type FileThread } from './thread.ts';

interface FileOptions {
  /** Leaves the file and its write-ahead log as they are. */
  readonly readOnly?: boolean;
  /**
   * Checks before each read and transaction, and throws a StoreOutage if it must not run. `now`: before a transaction and a
   * poll of the feed, whose result is a proof; otherwise a check in the same turn of the event loop is enough.
   */
  readonly check?: (now: boolean) => void;
}

export type EmbeddedDatabase = ReturnType<typeof embeddedDatabase>;

/** Creates a database that opens the file at its first statement. */
export function embeddedDatabase(path: string, { readOnly = false, check = () => {} }: FileOptions = {}) {
  const connection = new Connection(path, readOnly);
  const takeTurn = createTurns();
  const thread = createFileThread(path);
  const reader = createFileThread(path); // another, because a long read would hold up commits
  const commits = new GroupCommit(connection, thread, takeTurn, () => check(true));

  async function named<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      throw outageOf(error) ?? error;
    }
  }

  return {
    /** Retries for `withinMs` while the file is locked. */
    read: (statement, withinMs = RETRY_MS_MAX) =>
      named(async () => {
        check(statement.urgent === true);
        if (statement.background) return reader.read(statement);
        for (const untilMs = performance.now() + withinMs; ; await pauseWhileLocked()) {
          try {
            return await takeTurn(() => connection.sqlite().all(statement));
          } catch (error) {
            if (!isBusy(error) || performance.now() > untilMs) throw error;
          }
        }
      }),
    write: (statement) => named(async () => (await commits.commit([statement]))[0] as Written), // one for each statement
    writeAll: (statements) => named(() => commits.commit(statements, { alone: true })),
    /** Returns how long the write-ahead log must be for all that its index names. */
    logBytes: () => connection.logBytes(),
    /** Closes the file, and ends the threads, too. */
    async close() {
      connection.close();
      await Promise.all([thread.end(), reader.end()]);
    },
  } satisfies Database & Pick<Connection, 'logBytes'>;
}

// Queues statements, because each blocks the event loop, and yields to it in between.

/** After this much consecutive blocking work, the event loop runs what else is waiting. */
const BLOCKING_MS_MAX = 3;

/** Runs `work` after everything queued before. Rejects with what it throws. */
type TakeTurn = <T>(work: () => T) => Promise<T>;

/** Creates a queue that yields to the event loop after each `BLOCKING_MS_MAX` of work. */
function createTurns(): TakeTurn {
  let last: Promise<unknown> = Promise.resolve();
  let yieldedAtMs = 0;

  async function yieldToEventLoop(): Promise<void> {
    if (performance.now() - yieldedAtMs < BLOCKING_MS_MAX) return;
    await nextTurn();
    yieldedAtMs = performance.now();
  }

  return (work) => {
    const mine = last.then(work);
    last = mine.then(yieldToEventLoop, yieldToEventLoop);
    return mine;
  };
}

// Group commit: concurrent writes share a commit, because each has to wait for the disk, and eight together wait little
// longer than one. A batch has its own commit.

/** The most writes in a group. With eight, each has a small share of the disk's time; they block for a millisecond. */
const GROUP_MAX = 8;
/** A group of slow statements ends after this much work. */
const GROUP_MS_MAX = 2;

interface Write {
  /** One statement, or those of a batch. */
  readonly statements: readonly Statement[];
  readonly durability: Durability;
  /** Whether the thread runs it. Meanwhile the event loop goes on, and later writes wait. */
  readonly inThread: boolean;
  readonly untilMs: number;
  /** Whether it gets its own transaction, like a batch, and each write of a group that failed. */
  alone: boolean;
  resolve(written: readonly Written[]): void;
  reject(error: unknown): void;
}

class GroupCommit {
  readonly #waiting: Write[] = [];
  #isCommitting = false;

  /** Creates the commits of a connection. `check` throws if nothing may be written; it is called before each transaction. */
  constructor(
    readonly connection: Connection,
    readonly thread: FileThread,
    readonly takeTurn: TakeTurn,
    readonly check: () => void,
  ) {}

  /** Runs the statements in one transaction, shared unless `alone`. Rejects with the check's error, or SQLite's. */
  commit(statements: readonly Statement[], { alone = false } = {}): Promise<readonly Written[]> {
    return new Promise((resolve, reject) => {
      const durability = statements.every(({ unsynced }) => unsynced) ? 'NORMAL' : 'FULL';
      const inThread = alone && statements.some(({ background }) => background);
      const untilMs = performance.now() + RETRY_MS_MAX;
      this.#waiting.push({ statements, durability, inThread, untilMs, alone, resolve, reject });
      if (!this.#isCommitting) void this.#commitAll();
    });
  }

  async #commitAll(): Promise<void> {
    this.#isCommitting = true;
    while (this.#waiting.length > 0) {
      await nextTurn(); // writes of this turn of the event loop join the group
      if (this.#waiting[0]?.inThread) {
        await this.#commitInThread(this.#waiting[0]);
        continue;
      }
      const busy = await this.takeTurn(() => this.#commitNext());
      if (busy === null) continue;
      this.#rejectLate(busy.error);
      await pauseWhileLocked();
    }
    this.#isCommitting = false;
  }

  async #commitInThread({ statements, resolve, reject }: Write): Promise<void> {
    this.#waiting.shift();
    try {
      this.check();
      resolve(await this.thread.writeAll(statements));
    } catch (error) {
      reject(error);
    }
  }

  /**
   * Runs the next group in one transaction, or only its beginning if that takes long. Returns SQLite's error if the file is
   * locked. Isolates a write that fails: the group was rolled back, and each of its writes runs again alone.
   */
  #commitNext(): { readonly error: unknown } | null {
    const group = this.#nextGroup();
    try {
      this.check();
      const durability = group[0]?.durability ?? 'FULL';
      const written = this.connection.transaction(durability, (sqlite) => runWrites(sqlite, group));
      for (const one of written) this.#waiting.shift()?.resolve(one);
    } catch (error) {
      if (isBusy(error)) return { error };
      if (group.length === 1) this.#waiting.shift()?.reject(error);
      for (const write of group) write.alone = true;
    }
    return null;
  }

  /** Returns the writes that share the next commit, and leaves them in the queue. */
  #nextGroup(): readonly Write[] {
    const [first] = this.#waiting;
    if (first?.alone) return [first];
    const end = this.#waiting.findIndex((one) => one.alone || one.durability !== first?.durability);
    return this.#waiting.slice(0, end === -1 ? GROUP_MAX : Math.min(GROUP_MAX, end));
  }

  #rejectLate(error: unknown): void {
    while (this.#waiting[0] !== undefined && this.#waiting[0].untilMs < performance.now()) {
      this.#waiting.shift()?.reject(error);
    }
  }
}

function runWrites(sqlite: SqliteConnection, group: readonly Write[]): readonly (readonly Written[])[] {
  const endMs = performance.now() + GROUP_MS_MAX;
  const written: (readonly Written[])[] = [];
  for (const { statements } of group) {
    written.push(statements.map(sqlite.run));
    if (performance.now() > endMs) break;
  }
  return written;
}
