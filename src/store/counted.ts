// A database that counts what is asked of it, to show that verifying a known key asks nothing.

import type { Database } from './database.ts';

/** Statements since the database was opened; a transaction counts as one. */
export interface StoreCounts {
  reads: number;
  writes: number;
}

export function countedDatabase(db: Database, counts: StoreCounts): Database {
  return {
    read(statement, withinMs) {
      counts.reads += 1;
      return db.read(statement, withinMs);
    },
    write(statement) {
      counts.writes += 1;
      return db.write(statement);
    },
    writeUnsynced(statement) {
      counts.writes += 1;
      return db.writeUnsynced(statement);
    },
    writeAll(statements) {
      counts.writes += 1;
      return db.writeAll(statements);
    },
    close: db.close,
  };
}
