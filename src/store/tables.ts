// The tables, each with what upkeep, backups and replicas must know of it. What more they know of some: COUNTS in upkeep.ts,
// ORPHANS in doors/copies/backup.ts.

import { DAY_S } from '../ground/limits/rates.ts';
import { MS_PER_DAY, MS_PER_HOUR } from '../ground/runtime.ts';

export interface TableFacts {
  readonly name: string;
  /** The key by which all new rows come after the last one; null: they come anywhere. */
  readonly growsBy: 'row' | 'seq' | null;
  /**
   * `restored`: a restore replaces its rows by a backup's. `kept`: it keeps those that are there. `left_out`: backups have
   * none, and a restore deletes them, because what ends within minutes or hours must not be revived.
   */
  readonly backup: 'restored' | 'kept' | 'left_out';
  readonly inReplica: boolean;
  /** What the feed announces of a changed row: its `key_hash`, its `owner`, only that rules have changed, or nothing. */
  readonly announcedBy: 'key_hash' | 'owner' | 'rules' | null;
  /** The removals of its old rows. */
  readonly removals: readonly Removal[];
}

/** Statements that run in one transaction, repeated while a batch was full. upkeep.ts runs them. */
export type Removal = readonly string[];

/** The parameters of a removal. */
export interface Run {
  readonly nowMs: number;
  readonly eventDays: number;
  readonly usageDays: number;
  /** The last row before the batch of holders. */
  readonly after: number;
}

/** Returns the expression of one parameter; all are one argument. */
export const parameter = (name: keyof Run) => `(?1 ->> '${name}')`;

/** Rows that one transaction deletes, which blocks a local file's process for some 10 ms. */
export const BATCH_ROWS = 250;

// The earlier of this process's and the database's clock, so that a wrong one deletes nothing too early.
const NOW_MS = `CAST(min(${parameter('nowMs')}, unixepoch('subsec') * 1000) AS INTEGER)`;
export const NOW_S = `${NOW_MS} / 1000`;
/** The second from which uses are kept. */
export const OLDEST_S = `${NOW_S} - ${parameter('usageDays')} * ${DAY_S}`;

/** How long an ended code is kept, so that even a server with a slow clock knows that it has ended. */
const CODES_KEPT_MS = MS_PER_HOUR;
/** How long an ended child is kept, for servers with a slow clock that still list it. */
const CHILDREN_KEPT_MS = MS_PER_DAY;
/** Far longer than a statement can be in transit. */
const EXCHANGES_KEPT_MS = 7 * MS_PER_DAY;
/** A process that polls again within this time need not drop its caches. */
const CHANGES_KEPT_MS = MS_PER_DAY;
/**
 * 100 MB: a hundred times what a process reads rather than dropping its caches. At 5,000 changes a second it lasts 100 s,
 * after which no abandoned creation can still arrive (INSERT in store/key-changes.ts).
 */
export const CHANGES_KEPT_MAX = 500_000;

/** Returns the removal of long-ended children. It isn't announced, because they are refused already. */
function oldChildren(endsAtMs: 'ended_at_ms' | 'expires_at_ms'): Removal {
  const old = `row IN (SELECT row FROM children
WHERE ${endsAtMs} < ${NOW_MS} - ${CHILDREN_KEPT_MS} ORDER BY ${endsAtMs} LIMIT ${BATCH_ROWS})`;
  return [`UPDATE children SET changed_by = 'upkeep' WHERE ${old}`, `DELETE FROM children WHERE ${old}`];
}

const OLD_CODES = `DELETE FROM codes WHERE hash IN (
SELECT hash FROM codes WHERE ends_at_ms < ${NOW_MS} - ${CODES_KEPT_MS} ORDER BY ends_at_ms LIMIT ${BATCH_ROWS})`;

const OLD_EXCHANGES = `DELETE FROM exchanges WHERE at_ms < ${NOW_MS} - ${EXCHANGES_KEPT_MS}`;

// Keeps the newest, whatever its age, so that its number is not reused. Each by its own age, so that one written while a
// clock was slow takes no others with it.
const OLD_EVENTS = `DELETE FROM key_events WHERE seq IN (
SELECT seq FROM (SELECT seq, at_ms FROM key_events ORDER BY seq LIMIT ${BATCH_ROWS})
WHERE at_ms < ${NOW_MS} - ${parameter('eventDays')} * ${MS_PER_DAY}) AND seq < (SELECT max(seq) FROM key_events)`;

const OLD_CHANGES: Removal = [
  // pruned_seq tells readers that have not come that far that changes are missing.
  `UPDATE feed SET pruned_seq = old.seq FROM (
SELECT max(seq) AS seq FROM (SELECT seq, changed_at_ms FROM changes ORDER BY seq LIMIT ${BATCH_ROWS})
WHERE changed_at_ms < ${NOW_MS} - ${CHANGES_KEPT_MS} OR seq <= (SELECT max(seq) FROM changes) - ${CHANGES_KEPT_MAX}) AS old
WHERE old.seq > pruned_seq`,
  'DELETE FROM changes WHERE seq <= (SELECT pruned_seq FROM feed)',
];

/** The first day that is kept: days are removed by the month. */
const OLDEST_DAY = `unixepoch(${OLDEST_S}, 'unixepoch', 'start of month') / ${DAY_S}`;
const OLD_ENDED_USES = `DELETE FROM ended_uses WHERE (owner, day) IN (
SELECT owner, day FROM ended_uses WHERE day < ${OLDEST_DAY} LIMIT ${BATCH_ROWS})`;

type Facts = Omit<TableFacts, 'name'>;

const KEPT: Facts = { growsBy: null, backup: 'kept', inReplica: false, announcedBy: null, removals: [] };
const RESTORED: Facts = { ...KEPT, backup: 'restored' };
const LEFT_OUT: Facts = { ...KEPT, backup: 'left_out' };

/** All tables. A restore puts them in this order, so that a remote database blocks and counts for its keys from the first. */
export const TABLES: readonly TableFacts[] = [
  { ...KEPT, name: 'blocked_owners', inReplica: true, announcedBy: 'owner' }, // a restore adds blocks, and lifts none
  { ...RESTORED, name: 'owners', inReplica: true, announcedBy: 'owner' },
  { ...RESTORED, name: 'holders', growsBy: 'row' },
  { ...RESTORED, name: 'key_counts' }, // old ones are removed holder by holder (upkeep.ts)
  { ...RESTORED, name: 'key_months' }, // likewise
  { ...RESTORED, name: 'ended_uses', removals: [[OLD_ENDED_USES]] },
  { ...RESTORED, name: 'issuers', announcedBy: 'rules' },
  { ...RESTORED, name: 'rules', announcedBy: 'rules' },
  { ...RESTORED, name: 'api_keys', growsBy: 'row', inReplica: true, announcedBy: 'key_hash' },
  {
    ...LEFT_OUT,
    name: 'children',
    growsBy: 'row',
    inReplica: true,
    announcedBy: 'key_hash',
    removals: [oldChildren('ended_at_ms'), oldChildren('expires_at_ms')],
  },
  { ...LEFT_OUT, name: 'codes', removals: [[OLD_CODES]] },
  { ...KEPT, name: 'exchanges', removals: [[OLD_EXCHANGES]] },
  { ...KEPT, name: 'key_events', growsBy: 'seq', removals: [[OLD_EVENTS]] }, // a restore adds those that are missing
  { ...KEPT, name: 'changes', growsBy: 'seq', removals: [OLD_CHANGES] },
  { ...KEPT, name: 'feed' },
  { ...KEPT, name: 'server_secrets' }, // a new database takes the backup's
  { ...KEPT, name: 'upkeep' },
  { ...KEPT, name: 'schema_migrations' },
];

/** The names of tables that no backup has. */
export const LEFT_OUT_TABLES = TABLES.filter(({ backup }) => backup === 'left_out').map(({ name }) => name);
