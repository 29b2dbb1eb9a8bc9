// Implements Database over HTTP for libSQL: Turso, or your own sqld. Statements wait for their turn, and may be retried.

import type { Client, InStatement, ResultSet } from '@libsql/client/web';
import { acquireAll, createFairSemaphore, type Release } from '../../ground/limits/semaphore.ts';
import { StoreOutage } from '../../ground/result.ts';
import { type CreateHttpClient, sleep, systemClock } from '../../ground/runtime.ts';
import type { Database, RemoteConfig, Row, Statement, Written } from '../database.ts';
import { createAttempt } from './attempt.ts';

const TRIES_MAX = 3;
/** The longest random pause before the second try; before the third it is twice this. */
const PAUSE_MS_MAX = 150;
/** If there is little time in all, the pauses are shorter: up to this part of it, then up to twice that. */
const PAUSE_PART_MAX = 0.1;
/**
 * Limits one try, and all together. A second try helps if a connection died silently, or if this process was too busy to
 * read. To a busy primary it is more work, so writes, which run one after the other, get more time.
 */
interface Timeouts {
  readonly tryMs: number;
  readonly totalMs: number;
}
/** How long a read may take unless told. One try of it may take half of that. */
const READ_MS = 3000;
// A try of several statements must end before `sqld` takes the lock away from them, after 5 s: each remaining one then
// fails, and the driver leaves all but the first failure unhandled, which ends the process.
const WRITE: Timeouts = { tryMs: 4000, totalMs: 6000 };
/** One runs while the next is in transit. With four, one in some thousand waited 5 s, until `sqld` ended another. */
const WRITES_AT_ONCE = 2;
/** Far below the runtime's 256 concurrent requests, so that polls never wait. At 100 ms each, still 640 reads a second. */
const READS_AT_ONCE = 64;
/** Statements that may wait for a turn, a kilobyte each. An owner's are served in order, owners in turn. */
const WAITING = { total: 4000, each: 500 };
/** The part of its time that a statement may wait for its turn; the rest is for the call itself. */
const TURN_PART_OF_TIME = 0.6;

const driverStatement = ({ sql, args = [] }: Statement): InStatement => ({ sql, args: [...args] });

/** Creates the database. `patience` multiplies the time that statements may take: 1 for a server. */
export async function remoteDatabase(
  config: RemoteConfig,
  patience = 1,
  createHttpClient?: CreateHttpClient,
): Promise<Database> {
  const attempt = await createAttempt(config, createHttpClient);
  let closed = false;

  async function call<T>(
    run: (client: Client) => Promise<T>,
    { tryMs, totalMs }: Timeouts,
  ): Promise<{ value: T; repeated: boolean }> {
    const startedAtMs = performance.now();
    let repeated = false;
    for (let tries = 1; ; tries += 1) {
      if (closed) throw new StoreOutage('the store is closed');
      const leftMs = totalMs - (performance.now() - startedAtMs);
      const attempted = await attempt(run, Math.max(1, Math.min(tryMs, leftMs)), tries > 1);
      if (attempted.ok) return { value: attempted.value, repeated };
      repeated ||= attempted.outcomeUnknown;
      const pauseMs = Math.random() * Math.min(PAUSE_MS_MAX, totalMs * PAUSE_PART_MAX) * tries;
      const inTime = performance.now() - startedAtMs + pauseMs < totalMs;
      if (!attempted.again || tries === TRIES_MAX || !inTime) throw attempted.failure;
      await sleep(pauseMs);
    }
  }

  const writers = createTurns(WRITES_AT_ONCE);
  const readers = createTurns(READS_AT_ONCE);

  async function inTurn<T>(
    turns: Turns,
    statement: Statement,
    run: (client: Client) => Promise<T>,
    { tryMs, totalMs }: Timeouts,
  ): Promise<{ value: T; repeated: boolean }> {
    const startedAtMs = performance.now();
    const release = await turns(statement, totalMs * TURN_PART_OF_TIME);
    if (release === null) throw new StoreOutage('the primary is behind');
    try {
      return await call(run, { tryMs, totalMs: totalMs - (performance.now() - startedAtMs) });
    } finally {
      release();
    }
  }

  const patiently = ({ tryMs, totalMs }: Timeouts): Timeouts => ({
    tryMs: tryMs * patience,
    totalMs: totalMs * patience,
  });

  const execute = (statement: Statement) => (client: Client) => client.execute(driverStatement(statement));

  return {
    async read(statement, withinMs = READ_MS) {
      const timeouts = patiently({ tryMs: withinMs / 2, totalMs: withinMs });
      const { value } = await (statement.urgent
        ? call(execute(statement), timeouts)
        : inTurn(readers, statement, execute(statement), timeouts));
      return rowsOf(value);
    },
    // `unsynced` has no effect: the primary decides when it waits for its disk.
    async write(statement) {
      const { value, repeated } = await inTurn(writers, statement, execute(statement), patiently(WRITE));
      return writtenOf(value, repeated);
    },
    async writeAll(statements) {
      const batch = (client: Client) => client.batch(statements.map(driverStatement), 'write');
      const { value, repeated } = await inTurn(writers, statements[0] ?? { sql: '' }, batch, {
        ...patiently(WRITE),
        tryMs: WRITE.tryMs,
      });
      return value.map((result) => writtenOf(result, repeated));
    },
    async close() {
      closed = true;
    },
  };
}

/** Waits for a statement's turn. Null: it didn't come within that time. */
type Turns = (statement: Statement, withinMs: number) => Promise<Release | null>;

const STRANGERS = Symbol('strangers');

/** Creates turns for so many statements at once. Strangers run one at a time, and share one owner's turn. */
function createTurns(atOnce: number): Turns {
  const all = createFairSemaphore({ total: atOnce, each: atOnce }, WAITING, systemClock);
  const strangers = createFairSemaphore({ total: 1, each: 1 }, WAITING, systemClock);
  return ({ fairnessKey = '', stranger }, withinMs) => {
    if (!stranger) return all.acquire(fairnessKey, withinMs);
    const both = [
      [strangers, fairnessKey],
      [all, STRANGERS],
    ] as const;
    return acquireAll(both, withinMs, systemClock);
  };
}

/** Properties that runtimes look up in any object. */
const ASKED_OF_ALL = ['then', 'toJSON', 'constructor'];

/** Throws a StoreOutage for a column that the database did not send, because it answered something else. */
const CHECKED: ProxyHandler<Row> = {
  get(row, name) {
    if (typeof name === 'string' && !Object.hasOwn(row, name) && !ASKED_OF_ALL.includes(name)) {
      throw new StoreOutage(`the database sent no column ${name}`);
    }
    return Reflect.get(row, name);
  },
};

/** Returns the driver's rows, which have each value both by column name and by index. */
const rowsOf = ({ rows }: ResultSet) => rows.map((row) => new Proxy(row as unknown as Row, CHECKED));

const writtenOf = (result: ResultSet, repeated: boolean): Written => ({
  rows: rowsOf(result),
  changed: result.rowsAffected,
  repeated,
});
