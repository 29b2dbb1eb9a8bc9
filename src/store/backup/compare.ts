// What putting a backup back would undo: secrets that have ended since, and owners who were unblocked since.

import type { Database, Row } from '../database.ts';
import { type Backup, chunksOf, letSignalsIn } from './file.ts';

export interface Restoring {
  /** The database has never held anything. One whose keys were all deleted has their events. */
  readonly isNew: boolean;
  /** Keys that are there now. */
  readonly replaced: number;
  /** Secrets that have ended since, and would be accepted again. */
  readonly revivedCount: number;
  /** The first of them, by the order of their keys. */
  readonly revived: readonly Revived[];
  /** Owners who were unblocked since, and would be blocked again. */
  readonly blockedAgain: readonly string[];
}

export interface Revived {
  readonly ended: 'revoked' | 'deleted' | 'expired' | 'rotated out';
  readonly keyId: string;
  readonly owner: string;
  readonly name: string;
  readonly fingerprint: string;
}

/** More than a person reads; all of them are in the trail of events. */
export const REVIVED_SHOWN_MAX = 20;

const CHUNK_ROWS = 1000;

/** Of each pair of a hash and a key's id: whether the hash is accepted, and what else is known of the key. */
const STATES = `SELECT p.key AS at, k.active, k.expires_at_ms < ?2 AS expired, EXISTS (SELECT 1 FROM api_keys s
  WHERE (s.key_hash = p.value ->> 0 OR s.second_hash = p.value ->> 0) AND s.active = 1
  AND (s.expires_at_ms IS NULL OR s.expires_at_ms >= ?2)
  AND (s.key_hash = p.value ->> 0 OR s.second_is = 'next' OR s.second_ends_at_ms >= ?2)) AS accepted
FROM json_each(?1) p LEFT JOIN api_keys k ON k.id = p.value ->> 1 ORDER BY p.key`;

const THERE = 'SELECT (SELECT count(*) FROM api_keys) AS keys, EXISTS (SELECT 1 FROM key_events) AS "hasEvents"';

export async function compare(db: Database, { path }: Backup, nowMs: number): Promise<Restoring> {
  const [there] = await db.read({ sql: THERE });
  const revived: Revived[] = [];
  let revivedCount = 0;
  for (const rows of chunksOf(path, 'api_keys', CHUNK_ROWS)) {
    const secrets = rows.flatMap((row) => acceptedOf(row, nowMs).map((hash) => ({ row, hash })));
    const pairs = JSON.stringify(secrets.map(({ row, hash }) => [hash, row.id]));
    const states = await db.read({ sql: STATES, args: [pairs, nowMs] });
    for (const [at, { row, hash }] of secrets.entries()) {
      const state = states[at];
      if (state === undefined || state.accepted === 1) continue;
      revivedCount += 1;
      if (revived.length < REVIVED_SHOWN_MAX) revived.push(revivedOf(row, hash, state));
    }
    await letSignalsIn();
  }
  const replaced = Number(there?.keys);
  const isNew = replaced === 0 && there?.hasEvents === 0;
  return { isNew, replaced, revivedCount, revived, blockedAgain: await blockedAgain(db, path) };
}

/** The hashes by which the key of a row is accepted. */
function acceptedOf(row: Row, nowMs: number): string[] {
  const { active, expires_at_ms: expiresAtMs, second_hash: second, second_is: is, second_ends_at_ms: endsAtMs } = row;
  if (active !== 1 || (expiresAtMs !== null && Number(expiresAtMs) < nowMs)) return [];
  const secondWorks = second !== null && (is === 'next' || Number(endsAtMs) >= nowMs);
  return [String(row.key_hash), ...(secondWorks ? [String(second)] : [])];
}

function revivedOf(row: Row, hash: string, { active, expired }: Row): Revived {
  const ended =
    active === null ? 'deleted' : active === 0 ? 'revoked' : expired === 1 ? 'expired' : ('rotated out' as const);
  const fingerprint = hash.slice(0, 12);
  return { ended, keyId: String(row.id), owner: String(row.user_id), name: String(row.name), fingerprint };
}

async function blockedAgain(db: Database, path: string): Promise<string[]> {
  const owners: string[] = [];
  const sql = `SELECT value AS owner FROM json_each(?) WHERE value NOT IN (SELECT owner FROM blocked_owners)`;
  for (const rows of chunksOf(path, 'blocked_owners', CHUNK_ROWS)) {
    const blocked = JSON.stringify(rows.map(({ owner }) => owner));
    owners.push(...(await db.read({ sql, args: [blocked] })).map(({ owner }) => String(owner)));
  }
  return owners;
}
