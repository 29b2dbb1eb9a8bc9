// Restores a backup: into a file that nobody else has open, in one transaction, or into a remote database without keys, in
// many small ones, because `sqld` aborts a transaction after 5 s.

import { outageIn } from '../../ground/result.ts';
import { systemRandom } from '../../ground/runtime.ts';
import { mintId } from '../../keys/record.ts';
import { type Database, firstOf, type Row, type Statement } from '../../store/database.ts';
import { LEFT_OUT_TABLES, TABLES } from '../../store/tables.ts';
import type { Backup } from './backup-file.ts';
import { IS_ELSEWHERE, pagesOf, putRows, quoted, type Read, withoutTriggers } from './row-copy.ts';

const RESTORED = TABLES.filter(({ backup }) => backup === 'restored');
const EVENTS = 'key_events';
/** Owners blocked since stay blocked. */
const BLOCKS = 'blocked_owners';
const PAGE_ROWS = 1000;

const NEWEST_EVENT = `SELECT coalesce(max(seq), 0) AS seq FROM ${EVENTS}`;
/** Gives the database another id, by which every process drops its caches. */
const NEW_ID = 'UPDATE feed SET database_id = lower(hex(randomblob(16)))';
const SECRETS = 'SELECT name, value FROM server_secrets';
/** So that OAuth clients keep their registrations. Not where secrets are in use: one may have been replaced as it leaked. */
const TAKE_SECRET = 'UPDATE server_secrets SET value = ?2 WHERE name = ?1';
/** So that the days of uses that were no longer kept are known to be missing (admin/usage.ts). */
const BEGUN_AT = 'SELECT min(applied_at_ms) AS at FROM schema_migrations';
const TAKE_AGE = 'UPDATE schema_migrations SET applied_at_ms = min(applied_at_ms, ?) WHERE version = 1';

interface RestoreOptions {
  readonly actor: string | null;
  /** Whether the database has never held a key, so that nobody relies on its secrets. */
  readonly isNew: boolean;
  /** Takes the numbers of rows put so far and in total. */
  readonly progress?: (done: number, total: number) => void;
}

/** Returns the statements that end a restore, but for a new id. `newest`: the number here of the backup's newest event. */
async function lastStatements({ read }: Backup, newest: number, { isNew, actor }: RestoreOptions) {
  const secrets = isNew ? await read({ sql: SECRETS }) : [];
  const { at } = firstOf(await read({ sql: BEGUN_AT }));
  return [
    ...LEFT_OUT_TABLES.map((table) => `DELETE FROM ${table}`),
    { sql: TAKE_AGE, args: [at ?? null] },
    ...secrets.map(({ name, value }) => ({ sql: TAKE_SECRET, args: [name ?? null, value ?? null] })),
    {
      sql: `INSERT INTO ${EVENTS} (owner, kind, how, actor, backup_seq) VALUES ('', 'restored', 'command', ?1, ?2)`,
      args: [actor, newest],
    },
  ];
}

/** Restores into an exclusive file (exclusive-file.ts). Throws a StoreOutage if there is no room, and then changes nothing. */
export async function restoreFile(db: Database, backup: Backup, options: RestoreOptions): Promise<void> {
  await db.read({ sql: 'ATTACH ? AS backup', args: [backup.path] }); // SQLite refuses it in a transaction
  const after = await knownUpTo(db, backup);
  const { first } = firstOf(await db.read({ sql: FIRST_MISSING, args: [after] }));
  const shift = first === null ? 0 : shiftOf(await newestIn(db), Number(first));
  const replaced: string[] = [];
  for (const { name } of RESTORED) replaced.push(`DELETE FROM ${name}`, await insertAll(db, backup, 'INSERT', name));
  // A restore announces itself, and has its own event.
  await db.writeAll(
    await withoutTriggers(db, [
      ...replaced,
      await insertAll(db, backup, 'INSERT OR IGNORE', BLOCKS),
      { sql: await missingEvents(db, backup), args: [after, shift] },
      ...(await lastStatements(backup, (await newestIn(backup)) + shift, options)),
      NEW_ID,
    ]),
  );
  await db.read({ sql: 'DETACH backup' });
  await db.read({ sql: 'PRAGMA incremental_vacuum' }).catch(outageIn); // without room for that, too, it is restored
}

/** Creates the function that reads which columns both have of a table: some may have been added by hand. */
const readsCommon =
  (db: Database, backup: Backup): Read =>
  async (statement) => {
    const here = new Set((await db.read(statement)).map(({ name }) => name));
    return (await backup.read(statement)).filter(({ name }) => here.has(name));
  };

async function columnsIn(db: Database, backup: Backup, table: string): Promise<readonly string[]> {
  const columns = await readsCommon(db, backup)({ sql: 'SELECT name FROM pragma_table_info(?)', args: [table] });
  return columns.map(({ name }) => quoted(name));
}

/** Returns the statement that inserts all rows of the backup. */
async function insertAll(db: Database, backup: Backup, insert: string, table: string): Promise<string> {
  const columns = await columnsIn(db, backup, table);
  return `${insert} INTO ${table} (${columns}) SELECT ${columns} FROM backup.${table}`;
}

// The trail: an event that both have stays, the others of the backup come behind all that are there.

const IDENTITY = ['at_ms', 'owner', 'key_id', 'kind'];
const isOther = (one: (name: string) => string) =>
  `(${IDENTITY.map((name) => `e.${name}`)}) IS NOT (${IDENTITY.map(one)})`;
const MISSING_IN_FILE = `FROM backup.${EVENTS} b LEFT JOIN ${EVENTS} e ON e.seq = b.seq
WHERE b.seq > ?1 AND ${isOther((name) => `b.${name}`)}`;
const FIRST_MISSING = `SELECT min(b.seq) AS first ${MISSING_IN_FILE}`;

const SEQ = quoted('seq');

async function missingEvents(db: Database, backup: Backup): Promise<string> {
  const columns = await columnsIn(db, backup, EVENTS);
  const values = columns.map((name) => (name === SEQ ? 'b.seq + ?2' : `b.${name}`));
  return `INSERT INTO ${EVENTS} (${columns}) SELECT ${values}
${MISSING_IN_FILE} ORDER BY b.seq`;
}

const newestIn = async ({ read }: Pick<Database, 'read'>): Promise<number> =>
  Number(firstOf(await read({ sql: NEWEST_EVENT })).seq);

/** Returns by how much the backup's events move, if this is the first of them that is missing. */
const shiftOf = (newest: number, firstMissing: number): number => Math.max(0, newest - firstMissing + 1);

/** Returns the number of the oldest event here if the backup has the same: those before it were removed for their age. */
async function knownUpTo(db: Database, backup: Backup): Promise<number> {
  const sql = (place: string) => `SELECT seq, ${IDENTITY} FROM ${EVENTS} ${place} LIMIT 1`;
  const [oldest] = await db.read({ sql: sql('ORDER BY seq') });
  const [same] = await backup.read({ sql: sql('WHERE seq = ?'), args: [oldest?.seq ?? null] });
  const isSame = same !== undefined && IDENTITY.every((name) => same[name] === oldest?.[name]);
  return isSame ? Number(same.seq) : 0;
}

// A remote database. A write may be sent twice, and arrive late: each names the id that the database has by then, and a step
// that isn't to be repeated gives it another. Until the last one a row of `upkeep` says since when the restore is under way,
// and after which event. What a killed one has put goes: keys without an event since then, and older events behind that one.

const ID: Statement = { sql: 'SELECT database_id AS id FROM feed' };
/** Returns the first statement of a transaction: it gives the database the id ?2, and fails if its id isn't ?1. */
const takeId = (condition: string) => `UPDATE feed SET database_id = iif(database_id = ?1 AND ${condition}, ?2, NULL)`;

const MARK = 'restore after ';
const BEGUN = `FROM upkeep WHERE task GLOB '${MARK}*'`;
const IS_LEFT = `EXISTS (SELECT 1 ${BEGUN} AND NOT EXISTS (
SELECT 1 FROM ${EVENTS} e WHERE e.key_id = k.id AND e.at_ms >= upkeep.at_ms))`;
const HAS_KEYS = `SELECT 1 FROM api_keys k WHERE NOT ${IS_LEFT} LIMIT 1`;
const LEFT_EVENTS = `SELECT e.seq
FROM ${EVENTS} e, (SELECT at_ms, CAST(substr(task, ${MARK.length + 1}) AS INTEGER) AS seq ${BEGUN}) b
WHERE e.seq > b.seq AND e.at_ms < b.at_ms`;
const HAS_EVENTS = `SELECT 1 FROM ${EVENTS} WHERE seq NOT IN (${LEFT_EVENTS}) LIMIT 1`;
/** The rows that a killed restore has left, events last: by them the keys are told. */
const LEFT = [
  ['api_keys', `SELECT k.row FROM api_keys k WHERE ${IS_LEFT}`],
  [EVENTS, LEFT_EVENTS],
] as const;
const BEGIN = `INSERT INTO upkeep (task, at_ms)
SELECT coalesce((SELECT task ${BEGUN}), '${MARK}' || (${NEWEST_EVENT})), CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE true
ON CONFLICT (task) DO UPDATE SET at_ms = max(excluded.at_ms, at_ms)`;

/** Returns whether the database has keys, other than those of a restore that was killed. */
export const hasKeys = async ({ read }: Database): Promise<boolean> => (await read({ sql: HAS_KEYS })).length > 0;

/** Returns whether the database has never held a key, other than those of a restore that was killed. */
export const isNew = async (db: Database): Promise<boolean> =>
  !(await hasKeys(db)) && (await db.read({ sql: HAS_EVENTS })).length === 0;

/** A server has put rows of its own into the remote database meanwhile, or another restore has taken it over. */
export class DatabaseInUse extends Error {}

/** Restores into a remote database without keys. Throws DatabaseInUse. */
export async function restoreRemote(db: Database, backup: Backup, options: RestoreOptions): Promise<void> {
  const total = backup.keys + (await newestIn(backup));
  let done = 0;
  const putSoFar = (rows: number): void => {
    done += rows;
    options.progress?.(done, total);
  };
  const { put, putBehind } = await beginRestore(db);
  const columnsFrom = readsCommon(db, backup);
  for await (const rows of pagesOf(backup.read, BLOCKS, PAGE_ROWS, { columnsFrom }))
    await put(putRows('IGNORE', BLOCKS, rows));
  for (const { name: table, growsBy } of RESTORED) {
    let last = 0;
    for await (const rows of partsOf(pagesOf(backup.read, table, PAGE_ROWS, { columnsFrom }))) {
      if (growsBy === null) await put(putRows('REPLACE', table, rows));
      else if (await putBehind(table, growsBy, rows, last)) last = Number(rows.at(-1)?.[growsBy]);
      else throw new DatabaseInUse();
      if (table === 'api_keys') putSoFar(rows.length);
    }
  }
  const newest = await putEvents(db, backup, putBehind, putSoFar);
  await put([...(await lastStatements(backup, newest, options)), `DELETE ${BEGUN}`], { nextId: newId() });
}

/** The most characters of a page, of up to three bytes each: a remote database takes an argument of 5 MB. */
const PART_CHARS_MAX = 1_500_000;

/** Yields pages, those with long rows in parts. */
async function* partsOf(pages: AsyncIterable<readonly Row[]>): AsyncGenerator<readonly Row[]> {
  for await (const page of pages) {
    const parts = Math.ceil(JSON.stringify(page).length / PART_CHARS_MAX);
    const rows = Math.ceil(page.length / parts);
    for (let from = 0; from < page.length; from += rows) yield page.slice(from, from + rows);
  }
}

/** Puts a page behind the row with number `last`. Returns false, and puts nothing, if another row came behind it first. */
type PutBehind = (table: string, key: 'row' | 'seq', rows: readonly Row[], last: number) => Promise<boolean>;

const newId = () => mintId(systemRandom);

async function beginRestore(db: Database) {
  const idThere = async () => String(firstOf(await db.read(ID)).id);
  let id = await idThere();
  /** Runs statements in one transaction. Throws DatabaseInUse if somebody else has changed the id, or the condition fails. */
  async function put(statements: readonly (string | Statement)[], { nextId = id, condition = 'true' } = {}) {
    const take = { sql: takeId(condition), args: [id, nextId] };
    try {
      await db.writeAll(await withoutTriggers(db, [take, ...statements]));
    } catch (error) {
      if (!IS_ELSEWHERE.test(String(error))) throw error;
      // A try whose response was lost may have run.
      if (nextId === id || (await idThere()) !== nextId) throw new DatabaseInUse();
    }
    id = nextId;
  }

  for (const [table, left] of LEFT) {
    const remove = `DELETE FROM ${table} WHERE rowid IN (${left} LIMIT ${PAGE_ROWS})`;
    while ((await db.read({ sql: `${left} LIMIT 1` })).length > 0) await put([remove], { nextId: newId() });
  }
  const empty = RESTORED.map(({ name }) => `DELETE FROM ${name}`);
  await put([...empty, BEGIN], { nextId: newId(), condition: `NOT EXISTS (${HAS_KEYS})` });
  const putBehind: PutBehind = async (table, key, rows, last) => {
    const names = Object.keys(rows[0] ?? {});
    const where = `WHERE (SELECT coalesce(max(${key}), 0) FROM ${table}) = ${last}`;
    await put(putRows('IGNORE', table, rows, where));
    const isPut = `SELECT 1 FROM ${table} WHERE (${names.map(quoted)}) IS (${names.map((_, at) => `?${at + 1}`)})`;
    const args = names.map((name) => rows.at(-1)?.[name] ?? null);
    return (await db.read({ sql: isPut, args })).length > 0;
  };
  return { put, putBehind };
}

const MISSING = `SELECT p.key AS at FROM json_each(?) p LEFT JOIN ${EVENTS} e ON e.seq = p.value ->> 'seq'
WHERE ${isOther((name) => `p.value ->> '${name}'`)}`;

/** Puts the backup's missing events behind all others, also those that servers add meanwhile. Returns the last one's number. */
async function putEvents(
  db: Database,
  backup: Backup,
  putBehind: PutBehind,
  putSoFar: (rows: number) => void,
): Promise<number> {
  const after = { seq: await knownUpTo(db, backup) };
  let shift = 0;
  let last = await newestIn(db);
  for await (const rows of partsOf(
    pagesOf(backup.read, EVENTS, PAGE_ROWS, { after, columnsFrom: readsCommon(db, backup) }),
  )) {
    const asked = rows.map((row) => Object.fromEntries(['seq', ...IDENTITY].map((name) => [name, row[name]])));
    const found = await db.read({ sql: MISSING, args: [JSON.stringify(asked)] });
    const missing = found.map(({ at }) => rows[Number(at)] ?? {});
    for (let isPut = missing.length === 0; !isPut; ) {
      shift = Math.max(shift, shiftOf(last, Number(missing[0]?.seq)));
      const moved = missing.map((row) => ({ ...row, seq: Number(row.seq) + shift }));
      isPut = await putBehind(EVENTS, 'seq', moved, last);
      last = isPut ? Number(moved.at(-1)?.seq) : await newestIn(db);
    }
    putSoFar(rows.length);
  }
  return (await newestIn(backup)) + shift;
}
