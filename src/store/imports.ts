// Imports keys in batches for AdminStore; existing keys stay as they are.

import type { AdminStore } from '../keys/admin.ts';
import type { ApiKeyRecord } from '../keys/record.ts';
import { type Database, firstOf } from './database.ts';
import { insertArg, insertArgs, insertIf } from './key-changes.ts';

const IMPORT = insertIf(`AND NOT EXISTS (SELECT 1 FROM api_keys WHERE second_hash = ${insertArg('key_hash')})`);

// By id, too: two concurrent imports both find each hash afterwards.
const ALREADY_THERE = `SELECT count(*) AS count, coalesce(sum(own), 0) AS own FROM (SELECT max(EXISTS (
SELECT 1 FROM api_keys WHERE key_hash = r.value ->> 0 AND id = r.value ->> 1)) AS own FROM json_each(?1) r
WHERE EXISTS (SELECT 1 FROM api_keys WHERE key_hash = r.value ->> 0)
OR EXISTS (SELECT 1 FROM api_keys WHERE second_hash = r.value ->> 0) GROUP BY r.value ->> 0)`;

export function createImports(db: Database, ownerKeys: number): Pick<AdminStore, 'importBatch'> {
  /** Returns how many hashes exist, and how many of these with their record's id. */
  async function countKnown(records: readonly ApiKeyRecord[]): Promise<{ all: number; own: number }> {
    const pairs = JSON.stringify(records.map(({ keyHash, id }) => [keyHash, id]));
    const rows = await db.read({ sql: ALREADY_THERE, args: [pairs] });
    return { all: Number(firstOf(rows).count), own: Number(firstOf(rows).own) };
  }

  return {
    async importBatch(records, origin) {
      const before = await countKnown(records);
      await db.writeAll(records.map((record) => ({ sql: IMPORT, args: insertArgs(record, ownerKeys, origin) })));
      const after = await countKnown(records);
      const added = after.own - before.own;
      const repeated = records.length - new Set(records.map(({ keyHash }) => keyHash)).size;
      return { added, known: after.all - added + repeated };
    },
  };
}
