// Puts a backup back into a database, in one transaction.

import { outageIn } from '../../ground/result.ts';
import { sleep } from '../../ground/runtime.ts';
import { pagesOf, putRows } from '../copying.ts';
import { type Database, firstOf, type Row, type Statement } from '../database.ts';
import type { DatabaseConfig } from '../place.ts';
import { RESTORING } from '../removals.ts';
import type { Backup } from './file.ts';
import { copyInPieces, pauseAfter } from './pieces.ts';

/** Replaced as a whole. */
const REPLACED = ['api_keys', 'key_uses', 'key_counts', 'owners', 'holders'];
/** Only added to: who was blocked since stays blocked, and no event is forgotten. */
const MERGED = ['blocked_owners', 'key_events'];
/** Taken over only by a new database: in one that is in use, a secret may have been replaced because it leaked. */
const SECRETS = 'server_secrets';
const TABLES = [...REPLACED, ...MERGED, SECRETS];
const PAGE_ROWS = 500;
/** Rows of a file that are put in at once: others wait 10 ms to write. */
const PIECE_ROWS = 2000;
/** Pages of a file that are moved at once. */
const PIECE_PAGES = 250;
/** From so many pages on the log is begun anew: 40 MB. */
const LOG_PAGES = 10_000;
/** How often that is tried while others write, and the longest pause between. */
const LOG_TRIES_MAX = 20;
const LOG_PAUSE_MS_MAX = 20;

/** Returns the table that another one's rows are sent to ahead. */
const aheadOf = (table: string) => `${RESTORING}_${table}`;

const AHEAD_EVENTS = aheadOf('key_events');

/** Other events under the numbers of the backup's, as a new database has after its first key, are moved to the end. */
const MOVE_EVENTS = `UPDATE key_events
SET seq = seq + (SELECT max(seq) FROM (SELECT seq FROM key_events UNION ALL SELECT seq FROM ${AHEAD_EVENTS}))
WHERE EXISTS (SELECT 1 FROM ${AHEAD_EVENTS} b WHERE b.seq = key_events.seq
AND (b.at_ms, b.owner, b.key_id, b.kind) IS NOT (key_events.at_ms, key_events.owner, key_events.key_id, key_events.kind))`;

/** The trail says that from here on the keys are again as they were after the backup's newest event. */
const ADD_EVENT = `INSERT INTO key_events (owner, kind, how, backup_seq)
SELECT '', 'restored', 'command', coalesce(max(seq), 0) FROM ${AHEAD_EVENTS}`;

/** Takes over the backup's server secrets: OAuth clients keep their registrations, which other secrets would end. */
const TAKE_SECRETS = `UPDATE ${SECRETS} SET value = b.value FROM ${aheadOf(SECRETS)} b WHERE b.name = ${SECRETS}.name`;

/** Every process forgets what it knows. */
const NEW_ID = 'UPDATE feed SET database_id = lower(hex(randomblob(16)))';

const SET_MARK = [`DROP TABLE IF EXISTS ${RESTORING}`, `CREATE TABLE ${RESTORING} AS SELECT unixepoch() AS begun_s`];

const DROP_AHEAD = [RESTORING, ...TABLES.map(aheadOf)].map((table) => ({ sql: `DROP TABLE IF EXISTS ${table}` }));

const INDEXES = `SELECT sql FROM sqlite_master
WHERE type = 'index' AND tbl_name IN ('${REPLACED.join("', '")}') AND sql IS NOT NULL`;
const TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'";

/** Triggers are off meanwhile: a restore is not a change by a user, and has one event of its own. */
const putBack = (triggers: readonly Row[], indexes: readonly Row[], isNew: boolean): Statement[] =>
  [
    ...triggers.map(({ name }) => `DROP TRIGGER ${name}`),
    ...REPLACED.flatMap((table) => [`DROP TABLE ${table}`, `ALTER TABLE ${aheadOf(table)} RENAME TO ${table}`]),
    ...indexes.map(({ sql }) => String(sql)),
    MOVE_EVENTS,
    ...MERGED.map((table) => `INSERT INTO ${table} SELECT * FROM ${aheadOf(table)} WHERE true ON CONFLICT DO NOTHING`),
    ADD_EVENT,
    'DELETE FROM children', // no backup has any
    ...(isNew ? [TAKE_SECRETS] : []),
    ...triggers.map(({ sql }) => String(sql)),
    NEW_ID,
  ].map((sql) => ({ sql }));

/**
 * Sends the rows ahead into tables of their own, which then replace those before: others can write meanwhile, and `sqld`
 * ends a transaction after 5 s, which 100,000 insertions would take. If the transaction is sent twice, the second fails,
 * because the first has used up what was sent ahead. `isNew`: the database holds nothing that a server could rely on.
 */
export async function restore(
  { mode }: DatabaseConfig,
  db: Database,
  backup: Backup,
  { isNew } = { isNew: false },
): Promise<void> {
  const read = (sql: string, ...args: string[]) => db.read({ sql, args });
  const idOf = async () => firstOf(await read('SELECT database_id FROM feed')).database_id;
  const idBefore = await idOf();
  const send = mode === 'embedded' ? copyRows : sendRows;
  try {
    await db.writeAll(SET_MARK.map((sql) => ({ sql })));
    for (const table of TABLES) {
      const [made] = await read("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", table);
      await db.writeAll([
        { sql: `DROP TABLE IF EXISTS ${aheadOf(table)}` }, // of a restore that was interrupted
        { sql: String(made?.sql).replace(/^CREATE TABLE [^ (]+/, `CREATE TABLE ${aheadOf(table)}`) },
      ]);
      await send(db, backup, table);
    }
    const all = putBack(await read(TRIGGERS), await read(INDEXES), isNew);
    await db.writeAll([...all, ...DROP_AHEAD]).catch(async (outage) => {
      if ((await idOf()) === idBefore) throw outage; // else it was done by the try before
    });
  } finally {
    await db.writeAll(DROP_AHEAD).catch(outageIn);
  }
  if (mode === 'embedded') await giveBackRoom(db);
}

/** Copies within SQLite, in a twentieth of the time; each piece in a transaction of its own, so that others can write. */
async function copyRows(db: Database, { path }: Backup, table: string): Promise<void> {
  await db.read({ sql: 'ATTACH ? AS backup', args: [path] }); // in a transaction SQLite would refuse it
  try {
    const put = async (piece: Statement): Promise<void> => {
      await db.write({ ...piece, unsynced: true });
      await restartLog(db);
    };
    await copyInPieces(db, { table, from: 'backup', into: aheadOf(table), rows: PIECE_ROWS, put });
  } finally {
    await db.read({ sql: 'DETACH backup' });
  }
}

/**
 * Begins the log anew once it is long. While servers write, what a piece moves into the file is never all: the log would
 * become as large as the file.
 */
async function restartLog(db: Database): Promise<void> {
  const checkpoint = async (mode: string) => firstOf(await db.read({ sql: `PRAGMA wal_checkpoint(${mode})` }));
  if (Number((await checkpoint('PASSIVE')).log) < LOG_PAGES) return;
  for (let tries = 0; tries < LOG_TRIES_MAX; tries += 1) {
    if ((await checkpoint('RESTART')).busy === 0) return;
    await sleep(Math.random() * LOG_PAUSE_MS_MAX);
  }
}

/** Makes the file as small as it was, in pieces of some 5 ms. One that a version before has made keeps its size. */
async function giveBackRoom(db: Database): Promise<void> {
  const freePages = async () => Number(firstOf(await db.read({ sql: 'PRAGMA freelist_count' })).freelist_count);
  for (let left = await freePages(), before = Number.POSITIVE_INFINITY; left > 0 && left < before; ) {
    const beganMs = performance.now();
    await db.read({ sql: `PRAGMA incremental_vacuum(${PIECE_PAGES})` });
    await restartLog(db);
    [before, left] = [left, await freePages()];
    await pauseAfter(beganMs);
  }
}

async function sendRows(db: Database, { read }: Backup, table: string): Promise<void> {
  for await (const rows of pagesOf(read, table, PAGE_ROWS)) await db.writeAll(putRows('IGNORE', aheadOf(table), rows));
}
