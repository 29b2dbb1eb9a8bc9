// Puts a backup back into a file or a remote database, in one transaction.

import { outageIn } from '../../ground/outage.ts';
import type { Database, Row, Statement } from '../database.ts';
import type { DatabaseConfig } from '../place.ts';
import { type Backup, chunksOf, onFile } from './file.ts';

/** Replaced as a whole. */
const REPLACED = ['api_keys', 'key_uses', 'key_counts'];
/** Only added to: who was blocked since stays blocked, and no event is forgotten. */
const MERGED = ['blocked_owners', 'key_events'];
/** Taken over only by a new database: in one that is in use, a secret may have been replaced because it leaked. */
const SECRETS = 'server_secrets';
const TABLES = [...REPLACED, ...MERGED, SECRETS];
const CHUNK_ROWS = 500;

const NEW_ID = 'UPDATE feed SET database_id = lower(hex(randomblob(16)))';

/**
 * Puts a backup back in one transaction, and gives the database a new id, so that every process forgets what it knows.
 * Triggers are off meanwhile: a restore is not a change by a user, and has one event of its own.
 */
export async function restore(config: DatabaseConfig, db: Database, { path }: Backup, options = { isNew: false }) {
  if (config.mode === 'embedded') restoreFile(config.path, path, options);
  else await restoreRemote(db, path, options);
}

interface RestoreOptions {
  /** The database holds nothing that a server could rely on. */
  readonly isNew: boolean;
}

/** Without the secrets of before, the registrations of OAuth clients would be lost, which they keep for good. */
const takeSecrets = (source: string) =>
  `UPDATE ${SECRETS} SET value = b.value FROM ${source} b WHERE b.name = ${SECRETS}.name`;

const TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'";

/** Drops the triggers, runs `statements`, and makes the triggers anew. */
const withoutTriggers = (triggers: readonly Row[], statements: readonly string[]): Statement[] =>
  [
    ...triggers.map(({ name }) => `DROP TRIGGER ${name}`),
    ...statements,
    ...triggers.map(({ sql }) => String(sql)),
    NEW_ID,
  ].map((sql) => ({ sql }));

const replace = (table: string, source: string) => [
  `DELETE FROM ${table}`,
  `INSERT INTO ${table} SELECT * FROM ${source}`,
];

const merge = (table: string, source: string) => [
  ...(table === 'key_events' ? [moveEvents(source)] : []),
  `INSERT INTO ${table} SELECT * FROM ${source} WHERE true ON CONFLICT DO NOTHING`,
];

/** The trail says that from here on the keys are again as they were after the backup's newest event. */
const restoredEvent = (source: string) => `INSERT INTO key_events (owner, kind, how, backup_seq)
SELECT '', 'restored', 'command', coalesce(max(seq), 0) FROM ${source}`;

/** Other events under the numbers of the backup's, as a new database has after its first key, are moved to the end. */
const moveEvents = (source: string) => `UPDATE key_events
SET seq = seq + (SELECT max(seq) FROM (SELECT seq FROM key_events UNION ALL SELECT seq FROM ${source}))
WHERE EXISTS (SELECT 1 FROM ${source} b WHERE b.seq = key_events.seq
AND (b.at_ms, b.owner, b.key_id, b.kind) IS NOT (key_events.at_ms, key_events.owner, key_events.key_id, key_events.kind))`;

const restoreFile = (path: string, backup: string, { isNew }: RestoreOptions): void =>
  onFile(path, ({ all, run }) => {
    run({ sql: 'ATTACH ? AS backup', args: [backup] });
    const statements = [
      ...REPLACED.flatMap((table) => replace(table, `backup.${table}`)),
      ...MERGED.flatMap((table) => merge(table, `backup.${table}`)),
      restoredEvent('backup.key_events'),
      ...(isNew ? [takeSecrets(`backup.${SECRETS}`)] : []),
    ];
    run({ sql: 'BEGIN IMMEDIATE' });
    withoutTriggers(all({ sql: TRIGGERS }), statements).forEach(run);
    run({ sql: 'COMMIT' });
  });

/**
 * Sends the rows ahead into tables of their own, which then replace those before: `sqld` ends a transaction after 5 s,
 * which 100,000 insertions would take. If the transaction is sent twice, the second fails, because the first has used
 * up what was sent ahead.
 */
async function restoreRemote(db: Database, path: string, { isNew }: RestoreOptions): Promise<void> {
  const read = (sql: string) => db.read({ sql });
  const idOf = async () => (await read('SELECT database_id FROM feed'))[0]?.database_id;
  const idBefore = await idOf();
  try {
    for (const table of TABLES) await sendAhead(db, path, table);
    const indexes = await read(INDEXES);
    const statements = [
      ...REPLACED.flatMap((table) => [`DROP TABLE ${table}`, `ALTER TABLE ${aheadOf(table)} RENAME TO ${table}`]),
      ...indexes.map(({ sql }) => String(sql)),
      ...MERGED.flatMap((table) => merge(table, aheadOf(table))),
      restoredEvent(aheadOf('key_events')),
      ...(isNew ? [takeSecrets(aheadOf(SECRETS))] : []),
    ];
    const all = [...withoutTriggers(await read(TRIGGERS), statements), ...DROP_AHEAD];
    await db.writeAll(all).catch(async (outage) => {
      if ((await idOf()) === idBefore) throw outage; // else it was done by the try before
    });
  } finally {
    await db.writeAll(DROP_AHEAD).catch(outageIn);
  }
}

const NAMES_REPLACED = REPLACED.map((table) => `'${table}'`);
const INDEXES = `SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN (${NAMES_REPLACED}) AND sql IS NOT NULL`;

/** The underscore: a table that is not taken for one of ours (schema.ts). */
const aheadOf = (table: string) => `_restoring_${table}`;

const DROP_AHEAD = TABLES.map((table) => ({ sql: `DROP TABLE IF EXISTS ${aheadOf(table)}` }));

async function sendAhead(db: Database, path: string, table: string): Promise<void> {
  const ahead = aheadOf(table);
  const [made] = await db.read({
    sql: "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?",
    args: [table],
  });
  await db.writeAll([
    { sql: `DROP TABLE IF EXISTS ${ahead}` }, // of a restore that was interrupted
    { sql: String(made?.sql).replace(/^CREATE TABLE [^ (]+/, `CREATE TABLE ${ahead}`) },
  ]);
  for (const rows of chunksOf(path, table, CHUNK_ROWS)) {
    const columns = Object.keys(rows[0] ?? {});
    const values = columns.map((_, at) => `value ->> ${at}`);
    const sql = `INSERT OR IGNORE INTO ${ahead} SELECT ${values} FROM json_each(?)`; // it may be sent twice
    const args = [JSON.stringify(rows.map((row) => columns.map((column) => row[column])))];
    await db.write({ sql, args });
  }
}
