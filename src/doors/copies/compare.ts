// Reports what a restore would undo: secrets that were made or have ended since, owners unblocked, and rules removed.

import { fingerprintOf } from '../../keys/record.ts';
import { type Database, firstOf, type Row } from '../../store/database.ts';
import { hasSecret, rowBy } from '../../store/rows.ts';
import { type Backup, letSignalsIn } from './backup-file.ts';
import { pagesOf, type Read } from './row-copy.ts';

/** More than a person reads; all of them are in the trail. */
const REVIVED_SHOWN_MAX = 20;

const PAGE_ROWS = 1000;

/** Returns the condition that key `k` is accepted by the secret with this hash; ?2: now. */
const isAccepted = (hash: string) =>
  `k.active = 1 AND (k.expires_at_ms IS NULL OR k.expires_at_ms >= ?2) AND ${hasSecret(hash, '?2')}`;

/** Selects accepted secrets: of keys after row ?1, and of that key those after number ?3. */
const ACCEPTED = `SELECT k.row, h.key AS nth, h.value AS hash, k.id, k.user_id, k.name
FROM api_keys k, json_each(json_array(k.key_hash, k.second_hash)) h
WHERE (k.row, h.key) > (?1, ?3) AND ${isAccepted('h.value')} ORDER BY k.row, h.key LIMIT ${PAGE_ROWS}`;

/** Selects which of these hashes, each given with its key's id, are not accepted, and why. */
const ENDED = `SELECT p.key AS at, CASE WHEN of.id IS NULL THEN 'deleted' WHEN of.active = 0 THEN 'revoked'
WHEN of.expires_at_ms < ?2 THEN 'expired' ELSE 'rotated out' END AS ended
FROM json_each(?1) p LEFT JOIN api_keys of ON of.id = p.value ->> 1
WHERE NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.row = ${rowBy('p.value ->> 0')} AND ${isAccepted('p.value ->> 0')})
ORDER BY p.key`;

const THERE = 'SELECT count(*) AS keys FROM api_keys';

const RULES = 'SELECT id, key_id, issuer, subject FROM rules ORDER BY row';

const UNBLOCKED = 'SELECT value AS owner FROM json_each(?) WHERE value NOT IN (SELECT owner FROM blocked_owners)';

/** Compares the database with the backup. `progress`: how many keys of both were compared, and how many there are. */
export async function compare(
  { read }: Database,
  backup: Backup,
  nowMs: number,
  progress: (done: number, total: number) => void = () => {},
) {
  const replaced = Number(firstOf(await read({ sql: THERE })).keys);
  let compared = 0;
  const each = async (one: Read, other: Read, take: (ended: readonly Revived[]) => void) => {
    for await (const { secrets, ended } of acceptedOnly(one, other, nowMs)) {
      take(ended);
      compared = Math.min(compared + secrets, replaced + backup.keys);
      progress(compared, replaced + backup.keys);
    }
  };
  const revived: Revived[] = [];
  let revivedCount = 0;
  await each(backup.read, read, (ended) => {
    revivedCount += ended.length;
    revived.push(...ended.slice(0, REVIVED_SHOWN_MAX - revived.length));
  });
  let refusedCount = 0;
  await each(read, backup.read, (refused) => {
    refusedCount += refused.length;
  });
  return {
    /** How many keys there are now. */
    replaced,
    /** How many secrets are accepted now, and would be refused. */
    refusedCount,
    /** How many secrets have ended since, and would be accepted again. */
    revivedCount,
    /** The first of them, in the order of their keys. */
    revived,
    /** Owners who were unblocked since, and would be blocked again. */
    blockedAgain: await blockedAgain(read, backup.read),
    /** Rules that were removed since, and would let tokens in again. */
    rules: await rulesAgain(read, backup.read),
  };
}

/** Yields in pages the secrets that one database accepts and the other doesn't, and how many the first has in the page. */
async function* acceptedOnly(one: Read, other: Read, nowMs: number) {
  for (let last: Row = { row: Number.MIN_SAFE_INTEGER, nth: 0 }; ; ) {
    const secrets = await one({ sql: ACCEPTED, args: [last.row ?? null, nowMs, last.nth ?? null] });
    const next = secrets.at(-1);
    if (next === undefined) return;
    const pairs = JSON.stringify(secrets.map(({ hash, id }) => [hash, id]));
    const ended = await other({ sql: ENDED, args: [pairs, nowMs] });
    yield { secrets: secrets.length, ended: ended.map((row) => revivedOf(secrets[Number(row.at)] ?? {}, row)) };
    last = next;
    await letSignalsIn();
  }
}

const revivedOf = ({ id, user_id: owner, name, hash }: Row, { ended }: Row) => ({
  ended: String(ended),
  keyId: String(id),
  owner: String(owner),
  name: String(name),
  fingerprint: fingerprintOf(String(hash)),
});

type Revived = ReturnType<typeof revivedOf>;

/** Returns the rules of the backup that the database has no longer. */
async function rulesAgain(read: Read, readBackup: Read) {
  const there = new Set((await read({ sql: RULES })).map(({ id }) => id));
  const removed = (await readBackup({ sql: RULES })).filter(({ id }) => !there.has(id));
  return removed.map(({ id, key_id: keyId, issuer, subject }) => ({
    id: String(id),
    keyId: String(keyId),
    issuer: String(issuer),
    subject: String(subject),
  }));
}

async function blockedAgain(read: Read, readBackup: Read): Promise<string[]> {
  const owners: string[] = [];
  for await (const rows of pagesOf(readBackup, 'blocked_owners', PAGE_ROWS)) {
    const blocked = JSON.stringify(rows.map(({ owner }) => owner));
    owners.push(...(await read({ sql: UNBLOCKED, args: [blocked] })).map(({ owner }) => String(owner)));
  }
  return owners;
}
