// Imports keys in batches; existing keys stay as they are, but for the form of their secret.

import type { Origin } from '../../keys/actor.ts';
import type { ApiKeyRecord } from '../../keys/record.ts';
import { type Database, firstOf, type Statement } from '../../store/database.ts';
import { insertArg, insertArgs, insertIf } from '../../store/key-changes.ts';
import { rowBy } from '../../store/rows.ts';

/**
 * What became of an imported record. `known`: a key has that secret already; `now foreign`: and only now it is taken in
 * another form than this server's. `no place`: its owner has as many keys as he may.
 */
export type Imported = 'added' | 'known' | 'now foreign' | 'id taken' | 'no place';

/** A late duplicate of the statement must not bring back a key that was deleted after the batch began. */
const IMPORT = insertIf(
  `AND NOT EXISTS (SELECT 1 FROM api_keys WHERE second_hash = ${insertArg('key_hash')})`,
  (argsEnd) => `?${argsEnd + 1}`,
);
const NEWEST_CHANGE: Statement = { sql: 'SELECT coalesce(max(seq), 0) AS seq FROM changes' };

const HAS_FOREIGN = 'foreign_hash IN (key_hash, second_hash)';
const SET_FOREIGN = `UPDATE api_keys SET foreign_hash = ?1 WHERE row = ${rowBy('?1')} AND ${HAS_FOREIGN} IS NOT 1`;

/** Selects which hashes exist, whether with their record's id, and whether their key has a secret of another form. */
const THERE = `SELECT r.key AS at, k.key_hash = r.value ->> 0 AND k.id = r.value ->> 1 AS own, k.${HAS_FOREIGN} AS "isForeign"
FROM json_each(?) r JOIN api_keys k ON k.row = ${rowBy('r.value ->> 0')}`;
const IDS_THERE = 'SELECT r.key AS at FROM json_each(?) r JOIN api_keys k ON k.id = r.value ->> 1';

/**
 * Creates the function that adds the records whose hash and id are new, each unless its owner is at his maximum, and returns
 * what became of each. `keysMax`: of owners without a maximum of their own.
 */
export function createImport(db: Database, keysMax: number) {
  async function found(sql: string, pairs: string) {
    return new Map((await db.read({ sql, args: [pairs] })).map((row) => [Number(row.at), row]));
  }

  return async (records: readonly ApiKeyRecord[], origin: Origin): Promise<readonly Imported[]> => {
    const pairs = JSON.stringify(records.map(({ keyHash, id }) => [keyHash, id]));
    const newestChange = firstOf(await db.read(NEWEST_CHANGE)).seq ?? 0;
    const before = await found(THERE, pairs);
    const given = (record: ApiKeyRecord): Statement[] => [
      { sql: IMPORT, args: [...insertArgs(record, keysMax, origin), newestChange] },
      ...(record.foreignHash === null ? [] : [{ sql: SET_FOREIGN, args: [record.foreignHash] }]),
    ];
    await db.writeAll(records.flatMap(given));
    const after = await found(THERE, pairs);
    const ids = await found(IDS_THERE, pairs);
    const hashes = new Set<string>();
    return records.map(({ keyHash, foreignHash }, at): Imported => {
      const isRepeated = hashes.has(keyHash);
      hashes.add(keyHash);
      const there = after.get(at);
      if (there === undefined) return ids.has(at) ? 'id taken' : 'no place';
      if (!isRepeated && !before.has(at) && there.own === 1) return 'added';
      const isNowForeign = foreignHash !== null && before.get(at)?.isForeign !== 1;
      return isNowForeign && !isRepeated ? 'now foreign' : 'known';
    });
  };
}
