// Restores a backup into a database, in one transaction.

import { outageIn } from '../../ground/result.ts';
import { sleep } from '../../ground/runtime.ts';
import { pagesOf, putRows } from '../copying.ts';
import { type Database, firstOf, type Row, type Statement } from '../database.ts';
import { dropLeft, EMPTIED, type Emptying, RESTORING } from '../left-behind.ts';
import type { DatabaseConfig } from '../place.ts';
import {
  attached,
  type Compared,
  comparedOf,
  copyMissingEvents,
  differentKeys,
  KEYS_OF_BACKUP,
  type Progress,
  sendMissingEvents,
} from './differences.ts';
import type { Backup } from './file.ts';
import { copyInPieces, pauseAfter } from './pieces.ts';

const KEYS = 'api_keys';
const EVENTS = 'key_events';
/** Replaced by new tables as a whole. */
const REPLACED = ['key_uses', 'key_counts', 'owners', 'holders'];
/** Restored only into a new database: in one that is in use, a secret may have been replaced because it leaked. */
const SECRETS = 'server_secrets';
/** Sent in advance unchanged. Owners blocked since stay blocked. */
const SENT = [...REPLACED, 'blocked_owners', SECRETS];
const PAGE_ROWS = 500;
/** Rows inserted into a file at once, for which other writers wait 10 ms. */
const PIECE_ROWS = 2000;
/** Pages of a file moved at once. */
const PIECE_PAGES = 250;
/** The length in pages from which the WAL is reset: 40 MB. */
const LOG_PAGES = 10_000;
/** How often that is tried while others write, and the longest pause between tries. */
const LOG_TRIES_MAX = 20;
const LOG_PAUSE_MS_MAX = 20;

/** Returns the staging table for another one's rows. */
const stagingOf = (table: string) => `${RESTORING}_${table}`;

const STAGED_EVENTS = stagingOf(EVENTS);
/** The row numbers of keys that are replaced one by one. */
const KEY_ROWS = stagingOf('key_rows');

/** Moves events with the same numbers as the backup's to the end: a new database has some after its first key. */
const MOVE_EVENTS = `UPDATE ${EVENTS}
SET seq = seq + max((SELECT max(seq) FROM ${EVENTS}), (SELECT max(seq) FROM ${STAGED_EVENTS}))
WHERE seq IN (SELECT seq FROM ${STAGED_EVENTS})`;

/** Restores the server secrets, so that OAuth clients keep their registrations, which other secrets would end. */
const TAKE_SECRETS = `UPDATE ${SECRETS} SET value = b.value FROM ${stagingOf(SECRETS)} b WHERE b.name = ${SECRETS}.name`;

/** Makes every process drop its caches. */
const NEW_ID = 'UPDATE feed SET database_id = lower(hex(randomblob(16)))';

const INDEXES = `SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = '${KEYS}' AND sql IS NOT NULL`;
const TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'";
const NEWEST = `SELECT coalesce((SELECT max(seq) FROM ${EVENTS}), 0) AS event,
coalesce((SELECT max(seq) FROM changes), 0) AS change`;
const NEWEST_EVENT = `SELECT coalesce(max(seq), 0) AS event FROM ${EVENTS}`;

interface Prepared {
  /** The table with the backup's keys. */
  readonly source: string;
  /** Whether keys are replaced one by one: those that differ, and those changed during the comparison. */
  readonly oneByOne: boolean;
  /** The newest event and change before keys were compared. */
  readonly newest: Row;
  readonly newestInBackup: Row;
  readonly triggers: readonly Row[];
  readonly indexes: readonly Row[];
  readonly isNew: boolean;
}

/** Returns the statements of the one transaction. They drop triggers meanwhile, because a restore has its own event. */
const restoreStatements = ({ newestInBackup, triggers, isNew, ...keys }: Prepared): Statement[] =>
  [
    ...triggers.map(({ name }) => `DROP TRIGGER ${name}`),
    ...(keys.oneByOne ? replaceKeys(keys) : replaceAllKeys(keys)),
    ...REPLACED.flatMap((table) => [
      `ALTER TABLE ${table} RENAME TO ${EMPTIED}_${table}`,
      `ALTER TABLE ${stagingOf(table)} RENAME TO ${table}`,
    ]),
    MOVE_EVENTS,
    `INSERT INTO ${EVENTS} SELECT * FROM ${STAGED_EVENTS}`,
    `INSERT INTO blocked_owners SELECT * FROM ${stagingOf('blocked_owners')} WHERE true ON CONFLICT DO NOTHING`,
    // From here on the keys are as they were after the backup's newest event.
    `INSERT INTO ${EVENTS} (owner, kind, how, backup_seq) VALUES ('', 'restored', 'command', ${newestInBackup.event})`,
    'DELETE FROM children', // no backup has any
    ...(isNew ? [TAKE_SECRETS] : []),
    ...triggers.map(({ sql }) => String(sql)),
    NEW_ID,
  ].map((sql) => ({ sql }));

type Keys = Pick<Prepared, 'source' | 'newest' | 'indexes'>;

/** Finds changes since by events and the feed, both as in the database and as in the backup. */
function replaceKeys({ source, newest }: Keys): string[] {
  const byId = `id IN (SELECT key_id FROM ${EVENTS} WHERE seq > ${newest.event} AND key_id IS NOT NULL)`;
  const hashes = `(SELECT key_hash FROM changes WHERE seq > ${newest.change})`;
  const changed = [byId, `key_hash IN ${hashes}`, `second_hash IN ${hashes}`].flatMap((isChanged) =>
    [KEYS, source].map((table) => `SELECT row FROM ${table} WHERE ${isChanged}`),
  );
  return [
    `INSERT OR IGNORE INTO ${KEY_ROWS} ${changed.join(' UNION ')}`,
    `DELETE FROM ${KEYS} WHERE row IN (SELECT row FROM ${KEY_ROWS})`,
    `INSERT INTO ${KEYS} SELECT * FROM ${source} WHERE row IN (SELECT row FROM ${KEY_ROWS})`,
    `DROP TABLE ${KEY_ROWS}`,
  ];
}

const replaceAllKeys = ({ indexes }: Keys): string[] => [
  `DROP TABLE ${KEYS}`,
  `ALTER TABLE ${stagingOf(KEYS)} RENAME TO ${KEYS}`,
  ...indexes.map(({ sql }) => String(sql)),
];

/** How rows get into the database: into a file, or over the network. */
interface Transfer {
  /** Copies all rows of a table into its empty staging table. */
  send(table: string): Promise<void>;
  sendMissingEvents(): Promise<void>;
  readonly emptying: Emptying;
}

export interface RestoreOptions {
  readonly isNew?: boolean;
  readonly progress?: Progress;
}

/**
 * Stages what differs, and new tables for what changes with each use of a key, while others can write. The one transaction
 * at the end takes as long as the keys that differ, or, if these are many, as long as new indexes. If it is sent twice, the
 * second fails, because the first has used up the staging tables. `isNew`: the database has nothing that a server could
 * rely on. `progress`: how many of the backup's keys and events were compared.
 */
export async function restore(
  { mode }: DatabaseConfig,
  db: Database,
  backup: Backup,
  { isNew = false, progress = () => {} }: RestoreOptions = {},
): Promise<void> {
  const isFile = mode === 'embedded';
  const compared = comparedOf(backup.keys + (await eventsIn(backup)), progress);
  const transfer = isFile ? withinFile(db, compared) : overNetwork(db, backup, compared);
  const idOf = async () => firstOf(await db.read({ sql: 'SELECT database_id FROM feed' })).database_id;
  const idBefore = await idOf();
  const restoreAll = async () => {
    try {
      await dropLeft(db, transfer.emptying); // of a restore that was interrupted
      await db.writeAll([{ sql: `CREATE TABLE ${RESTORING} AS SELECT unixepoch() AS begun_s` }]);
      const all = restoreStatements({
        ...(await stageKeys(db, transfer, isFile, compared)),
        newestInBackup: firstOf(await backup.read({ sql: NEWEST_EVENT })),
        triggers: await db.read({ sql: TRIGGERS }),
        isNew,
      });
      await db.writeAll(all).catch(async (outage) => {
        if ((await idOf()) === idBefore) throw outage; // otherwise an earlier try succeeded
      });
    } finally {
      await dropLeft(db, transfer.emptying).catch(outageIn);
    }
  };
  await (isFile ? attached(db, backup, restoreAll) : restoreAll());
  if (isFile) await shrinkFile(db);
}

async function eventsIn({ read }: Backup): Promise<number> {
  return Number(firstOf(await read({ sql: `SELECT count(*) AS events FROM ${EVENTS}` })).events);
}

/** Stages everything, and returns what to do with the keys. */
async function stageKeys(db: Database, transfer: Transfer, isFile: boolean, compared: Compared) {
  for (const table of SENT) await stageTable(db, transfer, table);
  await createStaging(db, EVENTS);
  await transfer.sendMissingEvents();
  if (!isFile) await stageTable(db, transfer, KEYS);
  const source = isFile ? KEYS_OF_BACKUP : stagingOf(KEYS);
  const newest = firstOf(await db.read({ sql: NEWEST }));
  const different = await differentKeys(db, source, compared);
  if (different === null) {
    if (isFile) await stageTable(db, transfer, KEYS);
  } else {
    await db.writeAll([
      { sql: `CREATE TABLE ${KEY_ROWS} (row INTEGER PRIMARY KEY)` },
      { sql: `INSERT INTO ${KEY_ROWS} SELECT value FROM json_each(?)`, args: [JSON.stringify(different)] },
    ]);
  }
  return { source, newest, oneByOne: different !== null, indexes: await db.read({ sql: INDEXES }) };
}

async function stageTable(db: Database, transfer: Transfer, table: string): Promise<void> {
  await createStaging(db, table);
  await transfer.send(table);
}

async function createStaging(db: Database, table: string): Promise<void> {
  const { sql } = firstOf(
    await db.read({ sql: "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", args: [table] }),
  );
  await db.writeAll([{ sql: String(sql).replace(/^CREATE TABLE [^ (]+/, `CREATE TABLE ${stagingOf(table)}`) }]);
}

/** Copies within SQLite, in a twentieth of the time, with a transaction per piece, so that others can write. */
function withinFile(db: Database, compared: Compared): Transfer {
  const put = async (piece: Statement): Promise<void> => {
    await db.write({ ...piece, unsynced: true });
    await restartLog(db);
  };
  return {
    send: (table) => copyInPieces(db, { table, from: 'backup', into: stagingOf(table), rows: PIECE_ROWS, put }),
    sendMissingEvents: () => copyMissingEvents(db, STAGED_EVENTS, put, compared),
    emptying: {
      rows: PIECE_ROWS,
      async after(beganMs) {
        await restartLog(db);
        await pauseAfter(beganMs);
      },
    },
  };
}

/** Sends pages of rows, because `sqld` aborts a transaction after 5 s. */
const overNetwork = (db: Database, backup: Backup, compared: Compared): Transfer => ({
  async send(table) {
    for await (const rows of pagesOf(backup.read, table, PAGE_ROWS))
      await db.writeAll(putRows('IGNORE', stagingOf(table), rows));
  },
  sendMissingEvents: () => sendMissingEvents(db, backup, STAGED_EVENTS, compared),
  emptying: { rows: PAGE_ROWS, after: async () => {} },
});

/**
 * Resets the WAL once it is long. While servers write, no checkpoint of a piece is complete, so the WAL would become as
 * large as the file.
 */
async function restartLog(db: Database): Promise<void> {
  const checkpoint = async (mode: string) => firstOf(await db.read({ sql: `PRAGMA wal_checkpoint(${mode})` }));
  if (Number((await checkpoint('PASSIVE')).log) < LOG_PAGES) return;
  for (let tries = 0; tries < LOG_TRIES_MAX; tries += 1) {
    if ((await checkpoint('RESTART')).busy === 0) return;
    await sleep(Math.random() * LOG_PAUSE_MS_MAX);
  }
}

/** Shrinks the file to its size before, in pieces of some 5 ms. A file made by an older version keeps its size. */
async function shrinkFile(db: Database): Promise<void> {
  const freePages = async () => Number(firstOf(await db.read({ sql: 'PRAGMA freelist_count' })).freelist_count);
  for (let left = await freePages(), before = Number.POSITIVE_INFINITY; left > 0 && left < before; ) {
    const beganMs = performance.now();
    await db.read({ sql: `PRAGMA incremental_vacuum(${PIECE_PAGES})` });
    await restartLog(db);
    [before, left] = [left, await freePages()];
    await pauseAfter(beganMs);
  }
}
