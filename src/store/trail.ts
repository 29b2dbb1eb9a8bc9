// Reads the trail of changes, which triggers write (db/README.md, key_events): for operators, and for the page. No other work
// with keys needs it.

import type { Origin, RuledWorkload } from '../keys/actor.ts';
import { type Database, firstOf, listIn, type Row, type Statement, textIn, wholeIn } from './database.ts';

/** The kinds of events. Triggers (db/) and `keys restore` write them. */
export const EVENT_KINDS = [
  'created',
  'rotated',
  'first_used',
  'revoked',
  'deleted',
  'changed',
  'blocked',
  'unblocked',
  'owner_changed',
  'owner_deleted',
  'connected',
  'restored',
  'rule_added',
  'rule_removed',
  'delegated',
  'child_ended',
] as const;

/** What was done to which key, by whom, and how. */
export type KeyEvent = ReturnType<typeof eventOf>;

/** Returns one row of the trail. */
const eventOf = (row: Row) => ({
  seq: wholeIn(row, 'seq'),
  atMs: wholeIn(row, 'at_ms'),
  /** The key that the event is about; null: an owner, or the whole database. */
  keyId: row.key_id as string | null,
  /** The owner that the event is about; null: the whole database. */
  owner: row.owner === '' ? null : String(row.owner),
  kind: row.kind as (typeof EVENT_KINDS)[number],
  /** `sql`: typed into the database. */
  how: row.how as Origin['how'] | 'sql',
  /**
   * The `sub` of a user token, or who ran the command; for `connected`, the host that got the key; for `delegated`, the
   * child's id.
   */
  actor: row.actor as string | null,
  requestId: row.request_id as string | null,
  address: row.address as string | null,
  /** Whether an admin's tool did it. */
  byAdmin: row.by_admin === 1,
  /** The fingerprint of the secret that the event is about. */
  fingerprint: row.fingerprint as string | null,
  /** Which secret has ended, unless the owner ended the whole key. */
  secret: row.secret as 'in_force' | 'next' | 'previous' | null,
  /** The newest event of the restored backup, for `restored`. */
  backupSeq: row.backup_seq as number | null,
  /** The id of the client that got the key, for `connected`, if the id is the URL of a client metadata document. */
  client: row.client as string | null,
  /** What a rule let in, or could, for `rule_added`, `rule_removed`, and a `delegated` by a token; null: no rule. */
  workload: row.workload === null ? null : (JSON.parse(textIn(row, 'workload')) as RuledWorkload), // triggers write it
  /** The changed fields, for `changed` and `owner_changed`; null: another kind. */
  fields: row.fields === null ? null : listIn<readonly string[]>(row.fields),
});

export interface EventQuery {
  /** Only events after this one; undefined: all. */
  readonly afterSeq?: number | undefined;
  /** Only events before this one; undefined: all. */
  readonly beforeSeq?: number | undefined;
  readonly keyId?: string | undefined;
  readonly owner?: string | undefined;
  /** Only events from this time on. */
  readonly sinceMs?: number | undefined;
  /** Only events before this time. */
  readonly untilMs?: number | undefined;
  readonly limit: number;
}

/** The order of numbers: oldest or newest first. */
type Order = 'ASC' | 'DESC';

function statementOf(query: EventQuery, order: Order): Statement {
  const conditions = [
    ['seq > ?', query.afterSeq ?? 0],
    ['seq < ?', query.beforeSeq],
    ['key_id = ?', query.keyId],
    ['owner = ?', query.owner],
    ['at_ms >= ?', query.sinceMs],
    ['at_ms < ?', query.untilMs],
  ] as const;
  const given = conditions.flatMap(([sql, value]) => (value === undefined ? [] : [{ sql, value }]));
  return {
    sql: `SELECT * FROM key_events WHERE ${given.map(({ sql }) => sql).join(' AND ')} ORDER BY seq ${order} LIMIT ${query.limit}`,
    args: given.map(({ value }) => value),
    fairnessKey: query.owner,
  };
}

const ENDS = `SELECT (SELECT min(owner) FROM key_events WHERE key_id = ?1) AS first,
(SELECT max(owner) FROM key_events WHERE key_id = ?1) AS last`;
const OWNERS = `WITH RECURSIVE owners (owner) AS (VALUES (?2) UNION ALL
SELECT (SELECT min(owner) FROM key_events WHERE key_id = ?1 AND owner > o.owner) FROM owners o WHERE o.owner < ?3)
SELECT owner FROM owners`;

export type Trail = ReturnType<typeof createTrail>;

/** Creates the reader of the trail, always from the primary. */
export function createTrail({ read }: Database) {
  /** Returns all owners that a key has had, nearly always one: the index has its events by owner. */
  async function ownersOf(keyId: string): Promise<readonly string[]> {
    const { first = null, last = null } = firstOf(await read({ sql: ENDS, args: [keyId] }));
    if (first === null) return [];
    if (first === last) return [String(first)];
    return (await read({ sql: OWNERS, args: [keyId, first, last] })).map(({ owner }) => String(owner));
  }

  /** Returns the first matching events of an order. Those of a key are read of each of its owners, each by an index. */
  async function eventsIn(query: EventQuery, order: Order): Promise<readonly KeyEvent[]> {
    const { keyId, owner, limit } = query;
    if (keyId === undefined || owner !== undefined) return (await read(statementOf(query, order))).map(eventOf);
    const found: KeyEvent[] = [];
    for (const each of await ownersOf(keyId)) {
      const rows = await read(statementOf({ ...query, owner: each }, order));
      found.push(...rows.map(eventOf));
    }
    const sign = order === 'ASC' ? 1 : -1;
    return found.sort((a, b) => sign * (a.seq - b.seq)).slice(0, limit);
  }

  return {
    /** Returns the oldest matching events, oldest first. Events of an owner are found by scanning the whole range. */
    oldest: (query: EventQuery) => eventsIn(query, 'ASC'),
    /** Returns the newest matching events, newest first, found likewise. */
    newest: (query: EventQuery) => eventsIn(query, 'DESC'),
    /** Returns an owner's events that are about no key before a number, newest first. */
    async newestOfOwner(owner: string, beforeSeq: number, limit: number): Promise<readonly KeyEvent[]> {
      const sql = `SELECT * FROM key_events WHERE key_id IS NULL AND owner = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ${limit}`;
      return (await read({ sql, args: [owner, beforeSeq], fairnessKey: owner })).map(eventOf);
    },
    /** Returns the number of the newest event; 0: none. */
    async newestSeq(): Promise<number> {
      return Number(firstOf(await read({ sql: 'SELECT max(seq) AS seq FROM key_events' })).seq ?? 0);
    },
    /** Returns whose key this is; null: it isn't there any more. */
    async ownerOf(keyId: string, fairnessKey: string): Promise<string | null> {
      const [key] = await read({ sql: 'SELECT user_id FROM api_keys WHERE id = ?', args: [keyId], fairnessKey });
      return key === undefined ? null : textIn(key, 'user_id');
    },
  };
}
