// HandingOutStore over a Database: redeemed codes, and the secrets of codes (db/README.md). Writes may be repeated.

import { type Database, type DbResult, mapped, type Statement } from '../database/database.ts';
import { endedHourAt, type HandingOutStore } from '../keys/store.ts';
import { ok } from '../lib/result.ts';
import { sleep } from '../lib/timeout.ts';
import { hasChanged } from './key-changes.ts';

const REDEEM = `INSERT INTO redeemed_codes (number, attempt, key_id, fingerprint, changed_by)
SELECT ?1, ?2, id, ?4, ?5 FROM api_keys WHERE id = ?3 AND active = 1 ON CONFLICT DO NOTHING RETURNING number`;

const HAS_REDEEMED = 'SELECT 1 FROM redeemed_codes WHERE number = ?1 AND attempt = ?2';

/** A code ends a minute after it was made: one that was redeemed an hour ago can't come again. */
const FORGET_REDEEMED: Statement = {
  sql: "DELETE FROM redeemed_codes WHERE redeemed_at_ms < (unixepoch('subsec') - 3600) * 1000",
};

const CODE_SECRET = 'SELECT value FROM code_secrets WHERE hour = ?1';

/** Changes nothing if it is there already, but returns it. */
const MAKE_CODE_SECRET = `INSERT INTO code_secrets (hour, value) VALUES (?1, lower(hex(randomblob(32))))
ON CONFLICT DO UPDATE SET hour = hour RETURNING value`;

// In its place first: what is only deleted may stay in its page, and a text of the same length is written over it.
const OVERWRITE_CODE_SECRETS = "UPDATE code_secrets SET value = replace(hex(zeroblob(32)), '0', 'x') WHERE hour <= ?1";

const DELETE_CODE_SECRETS = 'DELETE FROM code_secrets WHERE hour <= ?1';

const ANY_CODE_SECRET = 'SELECT 1 FROM code_secrets WHERE hour <= ?1 LIMIT 1';

/** Of a file: else the page as it was would stay in the write-ahead log until that is written anew. */
const EMPTY_LOG: Statement = { sql: 'PRAGMA wal_checkpoint(TRUNCATE)' };

const EMPTY_LOG_TRIES = 100;
const EMPTY_LOG_PAUSE_MS = 50;

export interface HandingOutUpkeep extends HandingOutStore {
  /** Overwrites and removes the secrets that no code needs any more. */
  forgetCodeSecrets(nowMs: number): DbResult<void>;
  forgetRedeemed(): DbResult<void>;
}

/** `isFile`: not on a database server, which keeps a log of its own. */
export function createHandingOutStore(db: Database, isFile: boolean): HandingOutUpkeep {
  async function forgetCodeSecrets(nowMs: number): DbResult<void> {
    const args = [endedHourAt(nowMs)];
    const found = await db.read({ sql: ANY_CODE_SECRET, args });
    if (!found.ok || found.value.length === 0) return found.ok ? ok(undefined) : found;
    const forgotten = await db.writeAll([
      { sql: OVERWRITE_CODE_SECRETS, args },
      { sql: DELETE_CODE_SECRETS, args },
    ]);
    if (!forgotten.ok || !isFile) return forgotten;
    return emptyLog();
  }

  /** Tries again, a moment later, while others read or write. */
  async function emptyLog(): DbResult<void> {
    for (let tries = 0; tries < EMPTY_LOG_TRIES; tries += 1) {
      const emptied = await db.read(EMPTY_LOG); // not `write`: a transaction can't do it
      if (!emptied.ok || emptied.value[0]?.busy === 0) return emptied.ok ? ok(undefined) : emptied;
      await sleep(EMPTY_LOG_PAUSE_MS);
    }
    return ok(undefined); // the log is written anew in time
  }

  return {
    redeem: ({ number, attempt, keyId, fingerprint }, origin) =>
      hasChanged(
        db,
        { sql: REDEEM, args: [number, attempt, keyId, fingerprint, JSON.stringify(origin)] },
        { sql: HAS_REDEEMED, args: [number, attempt] },
      ),

    makeCodeSecret: (hour) =>
      mapped(db.write({ sql: MAKE_CODE_SECRET, args: [hour] }), ({ rows }) => String(rows[0]?.value)),

    codeSecret: (hour) =>
      mapped(db.read({ sql: CODE_SECRET, args: [hour] }), ([row]) => (row === undefined ? null : String(row.value))),

    forgetCodeSecrets,

    forgetRedeemed: () => mapped(db.write(FORGET_REDEEMED), () => undefined),
  };
}
