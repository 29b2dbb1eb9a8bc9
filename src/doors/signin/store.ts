// Stores codes by their SHA-256 (db/README.md, codes): what clients and devices redeem, once, for a key. codes.ts says what
// an OAuth client's code stands for, device-request.ts what a device's does. Every write is idempotent.

import type { TokenBuckets } from '../../ground/limits/rates.ts';
import type { Problem } from '../../ground/problem.ts';
import { ok, type Result } from '../../ground/result.ts';
import type { Sha256 } from '../../ground/runtime.ts';
import type { Caller, Origin } from '../../keys/actor.ts';
import { type ApiKeyRecord, fingerprintOf } from '../../keys/record.ts';
import { createLookups } from '../../keys/unknown-keys.ts';
import type { Database, Row } from '../../store/database.ts';
import { hasChanged, hasPlace, insertArg, insertArgs, insertIf } from '../../store/key-changes.ts';
import { COLUMNS } from '../../store/rows.ts';
import type { Log } from '../../watch/log.ts';
import { createAsk, HAS_PUT, WAITS } from './open-requests.ts';

/** What a code stands for. */
export interface CodeRow {
  readonly hash: string;
  readonly endsAtMs: number;
  /** Empty once the code was taken. */
  readonly content: string;
  readonly isTaken: boolean;
  /** Whether it is a device's request rather than an OAuth client's. */
  readonly isDevice: boolean;
  /** What a person has decided on a device's request; null: nothing yet. */
  readonly decision: string | null;
  /** The key handed out for it; null: none yet. */
  readonly keyId: string | null;
}

interface NewCode {
  readonly hash: string;
  readonly content: string;
  readonly endsAtMs: number;
  /** The owner of the key, if that is made on redemption; otherwise null. */
  readonly newKeyOf: string | null;
  /** The fairness key of its statements at a remote database. */
  readonly fairnessKey: string;
}

interface Decided extends Pick<NewCode, 'newKeyOf' | 'fairnessKey'> {
  /** The hash of the code that the person enters. */
  readonly hash: string;
  readonly decision: string;
}

const PUT = `INSERT INTO codes (hash, ends_at_ms, content, owner) SELECT ?1, ?2, ?3, ?4
WHERE ?4 IS NULL OR ${hasPlace('?4', '?5')} ON CONFLICT DO NOTHING`;

const FIND_ALL = `SELECT hash, ends_at_ms, content, key_id, taken_by IS NOT NULL AS taken,
user_code_hash IS NOT NULL AS device, decision FROM codes
WHERE hash IN (SELECT value FROM json_each(?1))`;

const TAKE = `UPDATE codes SET taken_by = ?2, key_id = ?3, fingerprint = ?4, changed_by = ?5, content = ''
WHERE hash = ?1 AND taken_by IS NULL AND ends_at_ms > ?6
AND EXISTS (SELECT 1 FROM api_keys WHERE id = ?3 AND active = 1)`;

const HAS_TAKEN = 'SELECT 1 FROM codes WHERE hash = ?1 AND taken_by = ?2';

/** Inserts a key like every creation, if the code is open and the owner isn't blocked. */
const MAKE = insertIf(`AND EXISTS (SELECT 1 FROM codes WHERE hash = ?${COLUMNS.length + 3} AND taken_by IS NULL
AND ends_at_ms > ${insertArg('created_at_ms')})
AND NOT EXISTS (SELECT 1 FROM blocked_owners WHERE owner = ${insertArg('user_id')})`);

const ASKED = `FROM codes WHERE user_code_hash = ?1 AND ${WAITS} ?2`;

const FIND_ASKED = `SELECT content, ends_at_ms ${ASKED}`;

const DECIDE = `UPDATE codes SET decision = ?3, owner = ?4 WHERE hash = (SELECT hash ${ASKED})
AND (?4 IS NULL OR ${hasPlace('?4', '?5')})`;

const HAS_DECIDED = 'SELECT 1 FROM codes WHERE user_code_hash = ?1 AND decision = ?2';

export type CodeStore = ReturnType<typeof createCodeStore>;

export function createCodeStore(db: Database, keysMax: number) {
  async function findAsked(hash: string, nowMs: number, fairnessKey: string) {
    const [row] = await db.read({ sql: FIND_ASKED, args: [hash, nowMs], fairnessKey });
    return row === undefined ? null : { content: String(row.content), endsAtMs: Number(row.ends_at_ms) };
  }

  return {
    /** Stores a code. Returns false if the owner already has his maximum of keys. */
    put: ({ hash, content, endsAtMs, newKeyOf, fairnessKey }: NewCode): Promise<boolean> =>
      hasChanged(
        db,
        { sql: PUT, args: [hash, endsAtMs, content, newKeyOf, keysMax], fairnessKey },
        { sql: HAS_PUT, args: [hash], fairnessKey },
      ),

    async findAll(hashes: readonly string[], fairnessKey: string) {
      const rows = await db.read({ sql: FIND_ALL, args: [JSON.stringify(hashes)], fairnessKey });
      const found = new Map(rows.map(codeOf).map((code) => [code.hash, code]));
      return (hash: string) => found.get(hash) ?? null;
    },

    /** Redeems the code, once, with an event. Returns false if it was redeemed or has ended, or its key isn't active. */
    take(hash: string, keyId: string, fingerprint: string, origin: Origin, nowMs: number): Promise<boolean> {
      const attempt = crypto.randomUUID(); // distinguishes it from others that redeem the same code
      return hasChanged(
        db,
        { sql: TAKE, args: [hash, attempt, keyId, fingerprint, JSON.stringify(origin), nowMs], fairnessKey: keyId },
        { sql: HAS_TAKEN, args: [hash, attempt], fairnessKey: keyId },
      );
    },

    /**
     * Redeems the code and creates the key, in one transaction, with the events `made` and, if given, `handed`. Returns
     * false if the code was redeemed or has ended, or the owner is blocked or at his maximum of keys.
     */
    async make(hash: string, record: ApiKeyRecord, made: Origin, handed: Origin | null): Promise<boolean> {
      const attempt = crypto.randomUUID();
      const fairnessKey = record.userId;
      const redeemed = [hash, attempt, record.id, fingerprintOf(record.keyHash), handed && JSON.stringify(handed)];
      const [, taken] = await db.writeAll([
        { sql: MAKE, args: [...insertArgs(record, keysMax, made), hash], fairnessKey },
        { sql: TAKE, args: [...redeemed, record.createdAtMs], fairnessKey },
      ]);
      if (taken?.changed === 1) return true;
      return (await db.read({ sql: HAS_TAKEN, args: [hash, attempt], fairnessKey })).length > 0; // by an earlier try
    },

    ask: createAsk(db),

    findAsked,

    async decide({ hash, decision, newKeyOf, fairnessKey }: Decided, nowMs: number) {
      const decided = await hasChanged(
        db,
        { sql: DECIDE, args: [hash, nowMs, decision, newKeyOf, keysMax], fairnessKey },
        { sql: HAS_DECIDED, args: [hash, decision], fairnessKey },
      );
      if (decided) return 'decided';
      return (await findAsked(hash, nowMs, fairnessKey)) === null ? 'not_open' : 'full';
    },
  };
}

const codeOf = (row: Row): CodeRow => ({
  hash: String(row.hash),
  endsAtMs: Number(row.ends_at_ms),
  content: String(row.content),
  isTaken: row.taken === 1,
  isDevice: row.device === 1,
  decision: row.decision as string | null,
  keyId: row.key_id as string | null,
});

export type FindCode = ReturnType<typeof createFindCode>;

/** Creates the function that reads what a code stands for, within the budgets of unknown keys; null: no such code. */
export function createFindCode({ findAll }: CodeStore, sha256: Sha256, budgets: TokenBuckets, log: Log) {
  const { find } = createLookups<CodeRow | null>({
    readAll: findAll,
    isGood: () => false, // codes, unlike keys, aren't cached: each presentation reads again
    budgets,
    log,
  });
  return async (code: string, caller: Caller): Promise<Result<CodeRow | null, Problem>> =>
    CODE.test(code) ? find(sha256(code, 'hex'), caller) : ok(null);
}

/** Matches what makeCode makes (codes.ts). */
const CODE = /^[\w-]{43}$/;
