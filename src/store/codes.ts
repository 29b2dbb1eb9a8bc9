// CodeStore over a Database: what codes stand for (db/README.md). Each write may be repeated.

import { fingerprintOf } from '../keys/record.ts';
import type { CodeRow, CodeStore } from '../keys/store.ts';
import { COLUMNS } from './columns.ts';
import { type Database, firstOf, type Row } from './database.ts';
import { hasChanged, hasPlace, insertArg, insertArgs, insertIf } from './key-changes.ts';

const PUT = `INSERT INTO codes (hash, ends_at_ms, content) SELECT ?1, ?2, ?3
WHERE ?4 IS NULL OR ${hasPlace('?4', '?5')} ON CONFLICT DO NOTHING`;

const HAS_PUT = 'SELECT 1 FROM codes WHERE hash = ?1';

const FIND_ALL = `SELECT hash, ends_at_ms, content, key_id, taken_by IS NOT NULL AS taken,
user_code_hash IS NOT NULL AS device, decision FROM codes
WHERE hash IN (SELECT value FROM json_each(?1))`;

const IS_OPEN = 'hash = ?1 AND taken_by IS NULL';

const TAKE = `UPDATE codes SET taken_by = ?2, key_id = ?3, fingerprint = ?4, changed_by = ?5, content = ''
WHERE ${IS_OPEN} AND EXISTS (SELECT 1 FROM api_keys WHERE id = ?3 AND active = 1) RETURNING hash`;

const HAS_TAKEN = 'SELECT 1 FROM codes WHERE hash = ?1 AND taken_by = ?2';

/** Inserts a key as every creation does, if the code is open and its owner is not blocked. */
const MAKE = insertIf(`AND EXISTS (SELECT 1 FROM codes WHERE hash = ?${COLUMNS.length + 3} AND taken_by IS NULL)
AND NOT EXISTS (SELECT 1 FROM blocked_owners WHERE owner = ${insertArg('user_id')})`);

/** The condition for a request that waits for a person's decision. */
const WAITS = 'taken_by IS NULL AND decision IS NULL AND ends_at_ms >';

/**
 * Open requests; now is ?1, and a new one ends at ?2. What ends later than two lives from now comes of a clock that was
 * ahead, and keeps nobody from asking. The indexes of 0013 cover each of the counts.
 */
const OPEN = `FROM codes WHERE asked_from IS NOT NULL AND ${WAITS} ?1 AND ends_at_ms <= ?2 + (?2 - ?1)`;

/** How many are open: of the address ?3, of all addresses that begin with ?4, and in all. */
const COUNTS = {
  address: `(SELECT count(*) ${OPEN} AND asked_from = ?3)`,
  network: `(SELECT count(*) ${OPEN} AND asked_from BETWEEN ?4 AND ?4 || '~')`,
  all: `(SELECT count(*) ${OPEN})`,
} as const;

const ASK = `INSERT INTO codes (hash, ends_at_ms, content, user_code_hash, asked_from) SELECT ?5, ?2, ?6, ?7, ?3
WHERE ${COUNTS.address} < ?8 AND ${COUNTS.network} < ?9 AND ${COUNTS.all} < ?10 ON CONFLICT DO NOTHING`;

const COUNT_OPEN = `SELECT ${COUNTS.address} AS address, ${COUNTS.network} AS network`;

const ASKED = `FROM codes WHERE user_code_hash = ?1 AND ${WAITS} ?2`;

const FIND_ASKED = `SELECT content, ends_at_ms ${ASKED}`;

const DECIDE = `UPDATE codes SET decision = ?3 WHERE hash = (SELECT hash ${ASKED})
AND (?4 IS NULL OR ${hasPlace('?4', '?5')}) RETURNING hash`;

const HAS_DECIDED = 'SELECT 1 FROM codes WHERE user_code_hash = ?1 AND decision = ?2';

export function createCodeStore(db: Database, ownerKeys: number): CodeStore {
  async function findAsked(hash: string, nowMs: number, whose: string) {
    const [row] = await db.read({ sql: FIND_ASKED, args: [hash, nowMs], whose });
    return row === undefined ? null : { content: String(row.content), endsAtMs: Number(row.ends_at_ms) };
  }

  return {
    put: ({ hash, content, endsAtMs, newKeyOf, whose }) =>
      hasChanged(
        db,
        { sql: PUT, args: [hash, endsAtMs, content, newKeyOf, ownerKeys], whose },
        { sql: HAS_PUT, args: [hash], whose },
      ),

    async findAll(hashes, whose) {
      const rows = await db.read({ sql: FIND_ALL, args: [JSON.stringify(hashes)], whose });
      const found = new Map(rows.map((row) => [String(row.hash), codeOf(row)]));
      return (hash: string) => found.get(hash) ?? null;
    },

    take: ({ hash, attempt, keyId, fingerprint }, origin) =>
      hasChanged(
        db,
        { sql: TAKE, args: [hash, attempt, keyId, fingerprint, JSON.stringify(origin)], whose: keyId },
        { sql: HAS_TAKEN, args: [hash, attempt], whose: keyId },
      ),

    async make({ hash, attempt, record }, made, handed) {
      const whose = record.userId;
      const fingerprint = fingerprintOf(record.keyHash);
      await db.writeAll([
        { sql: MAKE, args: [...insertArgs(record, ownerKeys, made), hash], whose },
        { sql: TAKE, args: [hash, attempt, record.id, fingerprint, handed && JSON.stringify(handed)], whose },
      ]);
      return (await db.read({ sql: HAS_TAKEN, args: [hash, attempt], whose })).length > 0;
    },

    async ask(
      { hash, userCodeHash, content, endsAtMs, address, network },
      { each, network: eachNetwork, total },
      nowMs,
    ) {
      const open = [nowMs, endsAtMs, address, network];
      const isPut = await hasChanged(
        db,
        {
          sql: ASK,
          args: [...open, hash, content, userCodeHash, each, eachNetwork, total],
          whose: address,
          stranger: true,
        },
        { sql: HAS_PUT, args: [hash], whose: address, stranger: true },
      );
      if (isPut) return 'asked';
      const counts = firstOf(await db.read({ sql: COUNT_OPEN, args: open, whose: address, stranger: true }));
      if (Number(counts.address) >= each) return 'address_full';
      return Number(counts.network) >= eachNetwork ? 'network_full' : 'all_full';
    },

    findAsked,

    async decide({ hash, decision, newKeyOf, whose }, nowMs) {
      const decided = await hasChanged(
        db,
        { sql: DECIDE, args: [hash, nowMs, decision, newKeyOf, ownerKeys], whose },
        { sql: HAS_DECIDED, args: [hash, decision], whose },
      );
      if (decided) return 'decided';
      return (await findAsked(hash, nowMs, whose)) === null ? 'not_open' : 'full';
    },
  };
}

const codeOf = (row: Row): CodeRow => ({
  endsAtMs: Number(row.ends_at_ms),
  content: String(row.content),
  isTaken: row.taken === 1,
  isDevice: row.device === 1,
  decision: row.decision as string | null,
  keyId: row.key_id as string | null,
});
