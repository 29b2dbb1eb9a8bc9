// One libSQL database, wherever it is, as the queries see it. embedded.ts and remote.ts implement it.

import type { InStatement, InValue, Row } from '@libsql/client';
import type { Stored } from '../keys/record.ts';

export type { Row };

export interface Statement {
  readonly sql: string;
  readonly args: readonly InValue[];
}

export interface Database {
  /** Reads from the primary. */
  read(statement: Statement): Stored<readonly Row[]>;
  /**
   * Runs one writing statement, durably, and returns the rows of its RETURNING clause. It may be sent more than once
   * when the outcome of a try is unknown: the statement must be harmless when repeated.
   */
  write(statement: Statement): Stored<readonly Row[]>;
  /** Runs statements in one transaction, all or none. May be sent more than once, like `write`. */
  writeAll(statements: readonly Statement[]): Stored<void>;
  close(): void;
}

/** A database this program must not touch: not ours, newer, or damaged. Starting again does not help. */
export class UnusableDatabase extends Error {
  override name = 'UnusableDatabase';
}

export const driverStatement = ({ sql, args }: Statement): InStatement => ({ sql, args: [...args] });

/** What an error of the driver says, in one line, for the log. Never the statement's arguments. */
export function errorReason(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text = String(message ?? error).split('\n', 1)[0] ?? '';
  return typeof code === 'string' && !text.includes(code) ? `${code}: ${text}` : text;
}
