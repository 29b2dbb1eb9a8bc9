// Implements CodeStore over a Database (db/README.md, codes). Every write is idempotent.

import { fingerprintOf } from '../keys/record.ts';
import type { CodeRow, CodeStore } from '../keys/store.ts';
import { COLUMNS } from './columns.ts';
import type { Database, Row } from './database.ts';
import { hasChanged, hasPlace, insertArg, insertArgs, insertIf } from './key-changes.ts';
import { createAsk, HAS_PUT, WAITS } from './open-requests.ts';

const PUT = `INSERT INTO codes (hash, ends_at_ms, content) SELECT ?1, ?2, ?3
WHERE ?4 IS NULL OR ${hasPlace('?4', '?5')} ON CONFLICT DO NOTHING`;

const FIND_ALL = `SELECT hash, ends_at_ms, content, key_id, taken_by IS NOT NULL AS taken,
user_code_hash IS NOT NULL AS device, decision FROM codes
WHERE hash IN (SELECT value FROM json_each(?1))`;

const IS_OPEN = 'hash = ?1 AND taken_by IS NULL';

const TAKE = `UPDATE codes SET taken_by = ?2, key_id = ?3, fingerprint = ?4, changed_by = ?5, content = ''
WHERE ${IS_OPEN} AND EXISTS (SELECT 1 FROM api_keys WHERE id = ?3 AND active = 1) RETURNING hash`;

const HAS_TAKEN = 'SELECT 1 FROM codes WHERE hash = ?1 AND taken_by = ?2';

/** Inserts a key like every creation, if the code is open and the owner isn't blocked. */
const MAKE = insertIf(`AND EXISTS (SELECT 1 FROM codes WHERE hash = ?${COLUMNS.length + 3} AND taken_by IS NULL)
AND NOT EXISTS (SELECT 1 FROM blocked_owners WHERE owner = ${insertArg('user_id')})`);

const ASKED = `FROM codes WHERE user_code_hash = ?1 AND ${WAITS} ?2`;

const FIND_ASKED = `SELECT content, ends_at_ms ${ASKED}`;

const DECIDE = `UPDATE codes SET decision = ?3 WHERE hash = (SELECT hash ${ASKED})
AND (?4 IS NULL OR ${hasPlace('?4', '?5')}) RETURNING hash`;

const HAS_DECIDED = 'SELECT 1 FROM codes WHERE user_code_hash = ?1 AND decision = ?2';

export function createCodeStore(db: Database, ownerKeys: number): CodeStore {
  async function findAsked(hash: string, nowMs: number, fairnessKey: string) {
    const [row] = await db.read({ sql: FIND_ASKED, args: [hash, nowMs], fairnessKey });
    return row === undefined ? null : { content: String(row.content), endsAtMs: Number(row.ends_at_ms) };
  }

  return {
    put: ({ hash, content, endsAtMs, newKeyOf, fairnessKey }) =>
      hasChanged(
        db,
        { sql: PUT, args: [hash, endsAtMs, content, newKeyOf, ownerKeys], fairnessKey },
        { sql: HAS_PUT, args: [hash], fairnessKey },
      ),

    async findAll(hashes, fairnessKey) {
      const rows = await db.read({ sql: FIND_ALL, args: [JSON.stringify(hashes)], fairnessKey });
      const found = new Map(rows.map((row) => [String(row.hash), codeOf(row)]));
      return (hash: string) => found.get(hash) ?? null;
    },

    take: ({ hash, attempt, keyId, fingerprint }, origin) =>
      hasChanged(
        db,
        { sql: TAKE, args: [hash, attempt, keyId, fingerprint, JSON.stringify(origin)], fairnessKey: keyId },
        { sql: HAS_TAKEN, args: [hash, attempt], fairnessKey: keyId },
      ),

    async make({ hash, attempt, record }, made, handed) {
      const fairnessKey = record.userId;
      const fingerprint = fingerprintOf(record.keyHash);
      await db.writeAll([
        { sql: MAKE, args: [...insertArgs(record, ownerKeys, made), hash], fairnessKey },
        { sql: TAKE, args: [hash, attempt, record.id, fingerprint, handed && JSON.stringify(handed)], fairnessKey },
      ]);
      return (await db.read({ sql: HAS_TAKEN, args: [hash, attempt], fairnessKey })).length > 0;
    },

    ask: createAsk(db),

    findAsked,

    async decide({ hash, decision, newKeyOf, fairnessKey }, nowMs) {
      const decided = await hasChanged(
        db,
        { sql: DECIDE, args: [hash, nowMs, decision, newKeyOf, ownerKeys], fairnessKey },
        { sql: HAS_DECIDED, args: [hash, decision], fairnessKey },
      );
      if (decided) return 'decided';
      return (await findAsked(hash, nowMs, fairnessKey)) === null ? 'not_open' : 'full';
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
