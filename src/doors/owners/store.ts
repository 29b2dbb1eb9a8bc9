// The list of owners, their settings and blocks, and the removal of an owner, in the database.

import type { Origin } from '../../keys/actor.ts';
import type { OwnerSettings } from '../../keys/record.ts';
import { type Database, firstOf, safeInteger, type Value } from '../../store/database.ts';
import { LAST_CHANGE, writeAsRead } from '../../store/key-changes.ts';
import { OWNER_SETTINGS, storedOwnerOf } from '../../store/owner-settings.ts';
import { columnsOf } from '../../store/rows.ts';

/** Fields that are given are set; null: back to the server's. */
export type OwnerEdit = { readonly [F in keyof OwnerSettings]?: OwnerSettings[F] | undefined };

export type OwnerStore = ReturnType<typeof createOwnerStore>;

/** Returns the columns of the given settings, and their values: those that keys have, too, are written as there. */
function ownerColumnsOf({ keysMax, ...given }: OwnerEdit) {
  const { names, values } = columnsOf(given);
  return keysMax === undefined ? { names, values } : { names: [...names, 'keys_max'], values: [...values, keysMax] };
}

/** Selects the next owner, with one search of each index, however many keys an owner has. */
const next = (after: string) => `(SELECT min(owner) FROM (
SELECT min(user_id) AS owner FROM api_keys WHERE user_id > ${after}
UNION ALL SELECT min(owner) FROM owners WHERE owner > ${after}
UNION ALL SELECT min(owner) FROM blocked_owners WHERE owner > ${after}))`;

/** A page of owners ends with the first of these that is reached. */
const PAGE = { owners: 100, keys: 10_000 };

// Each row has the number of keys of all owners before it: the last one begins the next page, or has no name.
const OWNERS_AFTER = `WITH RECURSIVE names (owner, before) AS (
SELECT ${next('?1')}, 0 UNION ALL
SELECT ${next('names.owner')}, before + (SELECT count(*) FROM api_keys WHERE user_id = names.owner)
FROM names WHERE names.owner IS NOT NULL AND before <= ${PAGE.keys} LIMIT ${PAGE.owners + 1})
SELECT n.owner, n.before, ${OWNER_SETTINGS}, EXISTS (SELECT 1 FROM blocked_owners b WHERE b.owner = n.owner) AS blocked
FROM names n LEFT JOIN owners o ON o.owner = n.owner ORDER BY n.owner IS NULL, n.owner`;

const BLOCK = `INSERT INTO blocked_owners (owner, changed_by) SELECT ?1, ?2 WHERE ${LAST_CHANGE.owner} = ?3
ON CONFLICT DO NOTHING`;
const UNBLOCK = `UPDATE blocked_owners SET deleting = 1, changed_by = ?2 WHERE owner = ?1 AND ${LAST_CHANGE.owner} = ?3`;

const BLOCKED_AFTER = `SELECT owner, ${safeInteger('blocked_at_ms')} AS blocked_at_ms
FROM blocked_owners WHERE owner > ?1 ORDER BY owner LIMIT 1000`;

/** Keys that one statement deletes: it holds up other writers for milliseconds. */
export const DELETED_AT_ONCE = 100;
const SOME_KEYS = `SELECT id FROM api_keys WHERE user_id = ?1 LIMIT ${DELETED_AT_ONCE}`;
// A trigger deletes the rows, because a DELETE could not say who makes it.
const DELETE = 'UPDATE api_keys SET deleting = 1, changed_by = ?2 WHERE';
const DELETE_KEYS = `${DELETE} id IN (SELECT value FROM json_each(?1))`;

/** Selects the event that the owner was last removed; 0: none. */
const LEFT = `(SELECT coalesce(max(seq), 0) FROM key_events
WHERE key_id IS NULL AND owner = ?1 AND kind = 'owner_deleted')`;
// Only removes what was there after the event that was read: a late duplicate leaves alone who has come back.
const LEAVE = `INSERT INTO owners (owner, changed_by, deleting) SELECT ?1, ?2, 1 WHERE ${LEFT} = ?3
ON CONFLICT (owner) DO UPDATE SET deleting = 1, changed_by = excluded.changed_by, changed_at_ms = excluded.changed_at_ms`;

/** Open codes would make keys of an owner who has left. */
const DELETE_CODES = `DELETE FROM codes WHERE owner = ?1 AND ${LEFT} = ?2`;

/** Keys that were made since the others were deleted. */
const DELETE_REST = `${DELETE} user_id = ?1 AND ${LEFT} = ?3`;

const HAS_ROWS = `SELECT EXISTS (SELECT 1 FROM api_keys WHERE user_id = ?1) OR EXISTS (SELECT 1 FROM owners WHERE owner = ?1)
OR EXISTS (SELECT 1 FROM holders WHERE owner = ?1) OR EXISTS (SELECT 1 FROM ended_uses WHERE owner = ?1)
OR EXISTS (SELECT 1 FROM children WHERE owner = ?1)
OR EXISTS (SELECT 1 FROM codes WHERE owner = ?1 AND taken_by IS NULL) AS is_kept`;

/** Events that one statement scans. */
const RANGE_EVENTS = 100_000;
// Each by itself: together SQLite would scan the table for them.
const LAST_EVENTS = `SELECT coalesce((SELECT min(seq) FROM key_events), 0) AS first,
coalesce((SELECT max(seq) FROM key_events), -1) AS last, ${LEFT} AS kept`;
const FORGET_EVENTS = 'DELETE FROM key_events WHERE seq BETWEEN ?2 AND ?3 AND owner = ?1 AND seq < ?4';
const HAS_EVENTS = `SELECT 1 FROM key_events
WHERE seq BETWEEN ?2 AND ?3 AND owner = ?1 AND kind <> 'owner_deleted' LIMIT 1`;

/** Creates the store. Its functions throw a StoreOutage while the database is away; writes are idempotent (KeyStore). */
export function createOwnerStore(db: Database) {
  /** Returns ranges over all events as arguments, and the seq of the event that the owner was deleted. */
  async function rangesOf(owner: string) {
    const { first, last, kept } = firstOf(await db.read({ sql: LAST_EVENTS, args: [owner] }));
    const ranges: [owner: string, from: number, to: number][] = [];
    for (let from = Number(first); from <= Number(last); from += RANGE_EVENTS)
      ranges.push([owner, from, Math.min(Number(last), from + RANGE_EVENTS - 1)]);
    return { ranges, kept: Number(kept) };
  }

  async function hasEvents(owner: string): Promise<boolean> {
    for (const args of (await rangesOf(owner)).ranges) {
      if ((await db.read({ sql: HAS_EVENTS, args })).length > 0) return true;
    }
    return false;
  }

  async function change(sql: string, owner: string, origin: Origin, ...given: readonly Value[]): Promise<boolean> {
    const args = [owner, JSON.stringify(origin), ...given];
    const { changed, repeated } = await writeAsRead(db, LAST_CHANGE.owner, { sql, args });
    return changed > 0 || repeated;
  }

  return {
    /**
     * Returns the next owners that have keys or settings or are blocked, in the database's order, and the name after which the
     * next page begins (null: there is none). A page has at least one owner if there is one.
     */
    async ownersAfter(owner: string) {
      const rows = await db.read({ sql: OWNERS_AFTER, args: [owner] });
      const keysBefore = rows.map(({ before }) => Number(before));
      const fits = (at: number) => at === 0 || (keysBefore[at + 1] ?? Infinity) <= PAGE.keys;
      const end = rows.slice(0, -1).findIndex((_, at) => !fits(at));
      const page = rows.slice(0, end === -1 ? -1 : end);
      const isLast = rows[page.length]?.owner === null;
      const owners = page.map((row, at) => storedOwnerOf(row, (keysBefore[at + 1] ?? 0) - (keysBefore[at] ?? 0)));
      return { owners, next: isLast ? null : (owners.at(-1)?.owner ?? null) };
    },

    /** Returns whether anything of an owner is stored: keys, settings, counts, or events beside that of the removal. */
    async isKept(owner: string): Promise<boolean> {
      const { is_kept } = firstOf(await db.read({ sql: HAS_ROWS, args: [owner] }));
      return is_kept === 1 || hasEvents(owner);
    },

    /** Changes settings. Returns false if nothing was different. */
    set(owner: string, edit: OwnerEdit, origin: Origin): Promise<boolean> {
      const { names, values } = ownerColumnsOf(edit);
      const marks = values.map((_, at) => `?${at + 3}`);
      // Inserts no row that would only say that nothing is set.
      const sql = `INSERT INTO owners (owner, changed_by, ${names}) SELECT ?1, ?2, ${marks}
WHERE (coalesce(${marks}, NULL) IS NOT NULL OR EXISTS (SELECT 1 FROM owners WHERE owner = ?1))
AND ${LAST_CHANGE.owner} = ?${values.length + 3}
ON CONFLICT (owner) DO UPDATE SET (changed_by, changed_at_ms, ${names}) =
(excluded.changed_by, excluded.changed_at_ms, ${names.map((name) => `excluded.${name}`)})
WHERE (${names.map((name) => `owners.${name}`)}) IS NOT (${names.map((name) => `excluded.${name}`)})`;
      return change(sql, owner, origin, ...values);
    },

    /** Blocks an owner. Returns false if he was blocked already. */
    block: (owner: string, origin: Origin) => change(BLOCK, owner, origin),

    /** Unblocks an owner. Returns false if he was not blocked. */
    unblock: (owner: string, origin: Origin) => change(UNBLOCK, owner, origin),

    /** Returns the next blocked owners after a name; none: there are no more. */
    async blockedAfter(owner: string) {
      const rows = await db.read({ sql: BLOCKED_AFTER, args: [owner] });
      return rows.map((row) => ({ owner: String(row.owner), blockedAtMs: Number(row.blocked_at_ms) }));
    },

    /** Deletes the codes of keys that are not made yet. */
    async deleteCodes(owner: string): Promise<void> {
      await db.write({ sql: DELETE_CODES, args: [owner, (await rangesOf(owner)).kept] });
    },

    /** Deletes up to DELETED_AT_ONCE keys of an owner. Returns how many. */
    async deleteKeys(owner: string, origin: Origin): Promise<number> {
      const ids = (await db.read({ sql: SOME_KEYS, args: [owner] })).map(({ id }) => id);
      if (ids.length > 0) await db.write({ sql: DELETE_KEYS, args: [JSON.stringify(ids), JSON.stringify(origin)] });
      return ids.length;
    },

    /** Removes settings and counts, and the owner's events before that of the removal. A block stays. */
    async leave(owner: string, origin: Origin): Promise<void> {
      const { kept: before } = await rangesOf(owner);
      const args = [owner, JSON.stringify(origin), before];
      await db.writeAll([
        { sql: DELETE_CODES, args: [owner, before] },
        { sql: DELETE_REST, args },
        { sql: LEAVE, args },
      ]);
      const { ranges, kept } = await rangesOf(owner);
      for (const range of ranges) await db.write({ sql: FORGET_EVENTS, args: [...range, kept] });
    },
  };
}
