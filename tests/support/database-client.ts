// A database beside the server, for tests that look into it or change it by hand. A file through `node:sqlite`, as the
// server opens it: two copies of SQLite in one process don't see each other's locks.

import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { createClient as createRemoteClient } from '@libsql/client/web';

export type Row = Record<string, unknown>;
type Statement = string | { readonly sql: string; readonly args?: readonly unknown[] };

export interface Client extends Disposable {
  execute(statement: Statement): Promise<{ readonly rows: Row[] }>;
  /** Statements without arguments. */
  executeMultiple(sql: string): Promise<void>;
  /** In one transaction. */
  batch(statements: readonly Statement[]): Promise<void>;
  close(): void;
}

/** While another connection writes. */
const LOCK_WAIT_MS = 5000;

export function openDatabase(url: string): Client {
  return url.startsWith('file:') ? openFile(decodeURIComponent(url.slice('file:'.length))) : openRemote(url);
}

/** The database of a test app on a file. */
export const databaseOf = ({ folder }: { readonly folder: string }): string => `file:${folder}/keys.db`;

/** Executes one statement there, and returns its rows. */
export async function executeAt(url: string, statement: Statement): Promise<Row[]> {
  using database = openDatabase(url);
  return (await database.execute(statement)).rows;
}

function openFile(path: string): Client {
  const db = new DatabaseSync(path, { timeout: LOCK_WAIT_MS });
  const run = (statement: Statement) => {
    const { sql, args = [] } = typeof statement === 'string' ? { sql: statement } : statement;
    return db.prepare(sql).all(...(args as SQLInputValue[])) as Row[];
  };
  return {
    execute: async (statement) => ({ rows: run(statement) }),
    executeMultiple: async (sql) => db.exec(sql),
    async batch(statements) {
      db.exec('BEGIN IMMEDIATE');
      try {
        for (const statement of statements) run(statement);
        db.exec('COMMIT');
      } catch (error) {
        if (db.isTransaction) db.exec('ROLLBACK');
        throw error;
      }
    },
    close: () => db.close(),
    [Symbol.dispose]: () => db.close(),
  };
}

function openRemote(url: string): Client {
  const client = createRemoteClient({ url });
  const driverStatement = (statement: Statement) =>
    typeof statement === 'string' ? statement : { sql: statement.sql, args: [...(statement.args ?? [])] as string[] };
  return {
    execute: async (statement) => ({ rows: (await client.execute(driverStatement(statement))).rows as Row[] }),
    executeMultiple: (sql) => client.executeMultiple(sql),
    batch: async (statements) => void (await client.batch(statements.map(driverStatement), 'write')),
    close: () => client.close(),
    [Symbol.dispose]: () => client.close(),
  };
}
