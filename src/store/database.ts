// One libSQL database, wherever it is, as the queries see it. embedded.ts and remote.ts implement it.

import type { InStatement, InValue, Row } from '@libsql/client';
import type { Result, StoreUnavailable } from '../problem.ts';

export type { Row };

export interface Statement {
  readonly sql: string;
  /** For its `?`, if it has any. */
  readonly args?: readonly InValue[];
}

/** Why a database gave no answer. */
export type Outage =
  | 'unreachable' // it may answer the next time
  | 'refused' // by credential, permission or address: somebody has to change something
  | 'no_schema'; // it answers, and our tables or columns are not there

export interface Unavailable extends StoreUnavailable {
  readonly outage: Outage;
}

export type Answered<T> = Promise<Result<T, Unavailable>>;

export interface Written {
  /** Rows of the RETURNING clause, of the last try. */
  readonly rows: readonly Row[];
  /** True where an earlier try may have been carried out as well; `rows` doesn't tell what that one changed. */
  readonly repeated: boolean;
}

export interface Database {
  /** Reads from the primary. `withinMs`: answer or give up by then; without it each database has a limit of its own. */
  read(statement: Statement, withinMs?: number): Answered<readonly Row[]>;
  /**
   * Runs one writing statement, durably. It may be sent more than once when the outcome of a try is unknown: the
   * statement must be harmless when repeated.
   */
  write(statement: Statement): Answered<Written>;
  /** As `write`, but a power cut may undo it: cheap where every commit waits for a disk of this machine. */
  writeUnsynced(statement: Statement): Answered<Written>;
  /** Runs statements in one transaction, all or none. May be sent more than once, like `write`. */
  writeAll(statements: readonly Statement[]): Answered<void>;
  close(): void;
}

/** A database this program must not touch: not ours, newer, or damaged. Starting again does not help. */
export class UnusableDatabase extends Error {
  override name = 'UnusableDatabase';
}

/** A failure while opening, where it travels as an exception. */
export class DatabaseOutage extends Error {
  override name = 'DatabaseOutage';
  constructor(readonly failure: Unavailable) {
    super(failure.reason);
  }
}

/** The value, or the outage as an exception: while opening there is nobody to return it to. */
export function unwrap<T>(result: Result<T, Unavailable>): T {
  if (!result.ok) throw new DatabaseOutage(result.error);
  return result.value;
}

export const unavailable = (outage: Outage, reason: string): Unavailable => ({
  code: 'store_unavailable',
  outage,
  reason,
});

export const driverStatement = ({ sql, args = [] }: Statement): InStatement => ({ sql, args: [...args] });

/** True where our tables or columns are not there: nothing else makes our statements fail so. In SQLite's words. */
export const isSchemaMissing = (error: unknown): boolean =>
  /no such (table|column)|has no column named/i.test(String(error));

/** What an error of the driver says, in one line, for the log. Never the statement's arguments. */
export function errorReason(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text = String(message ?? error).split('\n', 1)[0] ?? '';
  return typeof code === 'string' && !text.includes(code) ? `${code}: ${text}` : text;
}
