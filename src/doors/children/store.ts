// Stores children (db/README.md, children), and finds them where keys are found. Every write is idempotent.

import { LIMITS } from '../../ground/limits/index.ts';
import type { Origin } from '../../keys/actor.ts';
import type { ChildName, ChildRecord, DerivedKeys } from '../../keys/store.ts';
import { type Database, listIn, type Row, type Value } from '../../store/database.ts';
import { hasChanged } from '../../store/key-changes.ts';
import { BEFORE_ALL, type KeyLookup } from '../../store/key-reads.ts';
import { hasSecret, rowBy, scopesFrom } from '../../store/rows.ts';
import { DELEGATE, keyUnder, scopesUnder } from './child.ts';

/** The most living children that there may be. */
const OF_PARENT_MAX = LIMITS.children.each;
const OF_OWNER_MAX = LIMITS.childrenOfOwner.each;

/** A maximum of living children is reached, the parent's or its owner's. `freeAtMs`: when the first of them ends. */
export interface Full {
  readonly of: 'key' | 'owner';
  readonly freeAtMs: number;
}

export interface ChildStore extends DerivedKeys {
  /**
   * Adds a child if the parent's secret is accepted then; the inserting statement itself checks that and the limits.
   * `ended`: the secret isn't accepted, or may have no children.
   */
  insertChild(child: ChildRecord, origin: Origin): Promise<'made' | 'ended' | Full>;
}

const FIELDS =
  'id, owner, key_hash, parent_id, parent_hash, name, scopes, resource, created_at_ms, expires_at_ms, ended_at_ms';

/** Selects the child `c` as one value; NULL: none. */
const CHILD = `iif(c.id IS NULL, NULL, json_array(${FIELDS.replaceAll(/\w+/g, 'c.$&')}))`;

/** What CHILD selects: texts, among them the JSON of the scopes, and times. */
type Selected = readonly [
  ...[id: string, owner: string, hash: string, parentId: string, parentHash: string, name: string, scopes: string],
  ...[resource: string | null, createdAtMs: number, expiresAtMs: number, endedAtMs: number | null],
];

function childOf(json: Value | undefined): ChildRecord {
  const [id, userId, keyHash, parentId, parentHash, name, scopes, resource, createdAtMs, expiresAtMs, endedAtMs] =
    listIn<Selected>(json);
  return {
    ...{ id, userId, keyHash, parentId, parentHash, name, scopes: scopesFrom(scopes) },
    ...{ resource, createdAtMs, expiresAtMs, endedAtMs },
  };
}

/** Finds children with keys: by a child's secret its parent, by the secret or rule that made it. */
export const CHILD_LOOKUP: KeyLookup = {
  join: (hash) => `LEFT JOIN children c ON c.key_hash = ${hash}`,
  keyHash: 'c.parent_hash',
  columns: `${CHILD} AS child`,
  read: ({ child }, key) => (child === null ? key : keyUnder(childOf(child), key)),
};

/** Returns the condition that key `k` accepts this secret or rule, and it may have children, like barOf in child.ts. */
const isParent = (hash: string, nowMs: string) => `k.active = 1
AND (k.expires_at_ms IS NULL OR k.expires_at_ms >= ${nowMs}) AND (EXISTS (SELECT 1 FROM rules WHERE hash = ${hash} AND key_id = k.id)
OR ${hasSecret(hash, nowMs)} AND EXISTS (SELECT 1 FROM json_each(k.scopes) WHERE value = '${DELEGATE}'))
AND NOT EXISTS (SELECT 1 FROM blocked_owners WHERE owner = k.user_id)`;

/** When the child `c` of key `k` ends: by itself, with its parent, or with the secret that made it. */
const ENDS_AT_MS = `min(c.expires_at_ms, coalesce(k.expires_at_ms, c.expires_at_ms),
iif(k.second_hash = c.parent_hash, coalesce(k.second_ends_at_ms, c.expires_at_ms), c.expires_at_ms))`;

const lasts = (nowMs: string) => `c.ended_at_ms IS NULL AND c.expires_at_ms >= ${nowMs}`;

/** Returns the `FROM` clause of living children, each with its parent `k`. */
const living = (nowMs: string, of: string) => `FROM children c JOIN api_keys k ON k.row = ${rowBy('c.parent_hash')}
WHERE ${of} AND ${lasts(nowMs)} AND k.id = c.parent_id AND ${isParent('c.parent_hash', nowMs)}`;

const ofParent = (arg: string) => `c.parent_id = ${arg}`;
const ofOwner = (arg: string) => `c.owner = ${arg}`;

/** Returns the condition that fewer than `max` are living. Counts exactly only if there may be too many. */
const hasRoom = (of: string, nowMs: string, max: number) =>
  `((SELECT count(*) FROM children c WHERE ${of} AND ${lasts(nowMs)}) < ${max} OR (SELECT count(*) ${living(nowMs, of)}) < ${max})`;

const INSERT = `INSERT INTO children (id, owner, key_hash, parent_id, parent_hash, name, scopes, resource, created_at_ms,
expires_at_ms, changed_by) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM api_keys k
WHERE k.row = ${rowBy('?5')} AND k.id = ?4 AND ${isParent('?5', '?9')}
AND ${hasRoom(ofParent('?4'), '?9', OF_PARENT_MAX)}
AND ${hasRoom(ofOwner('?2'), '?9', OF_OWNER_MAX)} ON CONFLICT DO NOTHING`;

const IS_THERE = 'SELECT 1 FROM children WHERE id = ?1 AND key_hash = ?2';

/**
 * Counts the living children of parent ?1 and of owner ?2, and selects when the first of them ends; and whether the parent
 * accepts the secret ?4 still.
 */
const ROOM = `SELECT 'key' AS of, count(*) AS living, min(${ENDS_AT_MS}) AS first_ends_at_ms ${living('?3', ofParent('?1'))}
UNION ALL SELECT 'owner', count(*), min(${ENDS_AT_MS}) ${living('?3', ofOwner('?2'))}
UNION ALL SELECT 'secret', count(*), NULL FROM api_keys k WHERE k.row = ${rowBy('?4')} AND k.id = ?1 AND ${isParent('?4', '?3')}`;

const LIST = `SELECT c.row, ${CHILD} AS child, json(k.scopes) AS parent_scopes, ${ENDS_AT_MS} AS ends_at_ms
${living('?3', `${ofParent('?1')} AND (?2 IS NULL OR k.user_id = ?2)`)}
AND (c.created_at_ms, c.row) < (?4, ?5) ORDER BY c.created_at_ms DESC, c.row DESC`;

const COUNT = `SELECT c.parent_id, count(*) AS living
${living('?2', 'c.parent_id IN (SELECT value FROM json_each(?1))')} GROUP BY c.parent_id`;

/** The owner of child `c` is its parent's, which a database shell may change. */
const OWNER = 'coalesce((SELECT user_id FROM api_keys WHERE id = c.parent_id), c.owner)';

/** The condition that child `c` is owner ?2's; NULL: anybody's. */
const IS_OWNERS = `(?2 IS NULL OR ${OWNER} = ?2)`;

/** Selects an ended child where the table has no other name. */
const ENDED = `json_array(${FIELDS}) AS child`;

/** How often a child is tried: what a full parent refuses may find room by the time that this is read. */
const TRIES_MAX = 3;

export function createChildStore(db: Database): ChildStore {
  function isMade(child: ChildRecord, origin: Origin): Promise<boolean> {
    const { id, userId, keyHash, parentId, parentHash, name, scopes, resource, createdAtMs, expiresAtMs } = child;
    return hasChanged(
      db,
      {
        sql: INSERT,
        args: [
          ...[id, userId, keyHash, parentId, parentHash, name, JSON.stringify(scopes), resource],
          ...[createdAtMs, expiresAtMs, JSON.stringify(origin)],
        ],
        fairnessKey: userId,
      },
      { sql: IS_THERE, args: [id, keyHash], fairnessKey: userId },
    );
  }

  /** Returns why a child can't be made; null: there is room now, and the parent's secret is accepted. */
  async function whyNot({ userId, parentId, parentHash, createdAtMs }: ChildRecord): Promise<'ended' | Full | null> {
    const args = [parentId, userId, createdAtMs, parentHash];
    const rows = await db.read({ sql: ROOM, args, fairnessKey: userId });
    const isFull = ({ of, living }: Row) => Number(living) >= (of === 'key' ? OF_PARENT_MAX : OF_OWNER_MAX);
    const full = rows.filter((row) => row.of !== 'secret' && isFull(row));
    if (full.length > 0) {
      const of = full.some((row) => row.of === 'key') ? 'key' : 'owner';
      return { of, freeAtMs: Math.max(...full.map((row) => Number(row.first_ends_at_ms))) };
    }
    return rows.some(({ of, living }) => of === 'secret' && living === 1) ? null : 'ended';
  }

  return {
    async insertChild(child, origin) {
      for (let tries = 0; tries < TRIES_MAX; tries += 1) {
        if (await isMade(child, origin)) return 'made';
        const why = await whyNot(child);
        if (why !== null) return why;
      }
      return { of: 'key', freeAtMs: child.createdAtMs }; // others were sooner each time
    },

    async listChildren(parentId, owner, nowMs, after) {
      const { createdAtMs, row } = after ?? BEFORE_ALL;
      const rows = await db.read({
        sql: LIST,
        args: [parentId, owner, nowMs, createdAtMs, row],
        fairnessKey: owner ?? undefined,
      });
      return rows.map((listed) => {
        const child = childOf(listed.child);
        const scopes = scopesUnder(child, scopesFrom(String(listed.parent_scopes)));
        return { ...child, scopes, expiresAtMs: Number(listed.ends_at_ms), row: Number(listed.row) };
      });
    },

    async countChildren(parents, nowMs) {
      const mayHave = ({ scopes, rules }: (typeof parents)[number]) => scopes.includes(DELEGATE) || rules > 0;
      const parentIds = parents.filter(mayHave).map(({ id }) => id);
      if (parentIds.length === 0) return new Map();
      const rows = await db.read({ sql: COUNT, args: [JSON.stringify(parentIds), nowMs] });
      return new Map(rows.map((row) => [String(row.parent_id), Number(row.living)]));
    },

    async findChildren(by, owner) {
      const [condition, arg] = namedBy(by);
      const sql = `SELECT ${CHILD} AS child, ${OWNER} AS user_id FROM children c WHERE ${condition} AND ${IS_OWNERS}`;
      const rows = await db.read({ sql, args: [arg, owner], fairnessKey: owner ?? undefined });
      return rows.map((row) => ({ ...childOf(row.child), userId: String(row.user_id) }));
    },

    async endChildren(by, owner, nowMs, origin) {
      const [condition, arg] = namedBy(by);
      const asked = { args: [arg, owner, nowMs, JSON.stringify(origin)], fairnessKey: owner ?? undefined };
      const { rows, repeated } = await db.write({
        sql: `UPDATE children AS c SET ended_at_ms = ?3, changed_by = ?4 WHERE ${condition} AND ${IS_OWNERS}
AND ended_at_ms IS NULL RETURNING ${ENDED}`,
        ...asked,
      });
      if (!repeated) return rows.map(({ child }) => childOf(child));
      // An earlier try may have ended them.
      const sql = `SELECT ${ENDED} FROM children c WHERE ${condition} AND ${IS_OWNERS}
AND ended_at_ms = ?3 AND ?4 IS NOT NULL`;
      return (await db.read({ sql, ...asked })).map(({ child }) => childOf(child));
    },
  };
}

function namedBy(by: ChildName): readonly [condition: string, arg: string] {
  if ('id' in by) return ['c.id IN (SELECT value FROM json_each(?1))', JSON.stringify([by.id].flat())];
  if ('keyHash' in by) return ['c.key_hash IN (SELECT value FROM json_each(?1))', JSON.stringify([by.keyHash].flat())];
  return ["c.key_hash >= ?1 AND c.key_hash < ?1 || 'g'", by.fingerprint];
}
