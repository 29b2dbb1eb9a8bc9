// `keys restore`: restores a backup onto nothing, onto a file that nobody else has open, or into a remote database without
// keys.

import { chownSync, linkSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Config } from '../../config/config.ts';
import {
  type Backup,
  compare,
  DatabaseInUse,
  type FileAlone,
  hasKeys,
  holdAlone,
  isHeld,
  isNew,
  restoreFile,
  restoreRemote,
  withBackup,
} from '../../doors/copies/index.ts';
import { makePrivate } from '../../ground/private-files.ts';
import { isOutage, StoreOutage } from '../../ground/result.ts';
import { rfc3339 } from '../../ground/runtime.ts';
import { reasonOf } from '../../ground/text.ts';
import type { Database } from '../../store/database.ts';
import { checkFile, mustBeFile, openError } from '../../store/embedded/open.ts';
import { prepareDataFolder } from '../../store/open.ts';
import { migrate } from '../../store/schema.ts';
import { command } from '../command.ts';
import { CommandError, configOf, type Io } from '../io.ts';
import { FILE, flag, needed } from '../options.ts';
import { byCommand, exists, withStore } from './database.ts';
import { removing, withPrivateFolder } from './private-folder.ts';

const OWNERS_SHOWN_MAX = 20;
const ROOT_UID = 0;
/** What SQLite keeps beside a database. */
const LOG = ['-wal', '-shm'];
const partsOf = (file: string) => [...LOG, ''].map((part) => `${file}${part}`);

const REMOTE_HAS_KEYS =
  'DATABASE_URL: the database has keys, and a remote one is only restored without any; nothing was changed. Restore into a new one, and point DATABASE_URL at it';
const NEW_KNOWS_NOTHING =
  'a new database does not know what was revoked, deleted or blocked after the backup: end and block it here, too, before servers use it';
const REMOTE_IN_USE =
  'DATABASE_URL: somebody has put keys or owners into the database meanwhile, so the restore is not complete. Restore into a new one';

interface Given {
  readonly backup: Backup;
  readonly config: Config;
  readonly io: Io;
  readonly yes: boolean;
}

export const verb = command({
  name: 'keys restore',
  summary:
    'Puts a backup where there is no database, in the place of a file that nothing else has open (which stays beside it), or into a remote database without keys. Says which secrets that have ended since would work again, and asks.',
  options: { yes: flag },
  argument: needed(FILE),
  async run({ options: { yes }, argument: file, io }) {
    const restoreFrom = async (backup: Backup) => {
      const config = configOf(io);
      const given = { backup, config, io, yes };
      await (config.database.mode === 'embedded' ? intoFile(config.database.path, given) : intoRemote(given));
      io.say(`keys restored: ${backup.keys}`);
    };
    await withPrivateFolder(io, (folder) => withBackup(file, folder, restoreFrom)).catch((error) => {
      throw error instanceof CommandError ? error : new CommandError(reasonOf(error));
    });
  },
});

const intoRemote = (given: Given): Promise<void> =>
  withStore(
    given.io,
    async ({ db }) => {
      const { backup, io } = given;
      if (await hasKeys(db)) throw new CommandError(REMOTE_HAS_KEYS);
      const options = { ...(await optionsFor(db, given)), progress: io.progressOf('keys and events restored') };
      await restoreRemote(db, backup, options).catch((error) => {
        throw error instanceof DatabaseInUse ? new CommandError(REMOTE_IN_USE) : error;
      });
      if (options.isNew) io.say(NEW_KNOWS_NOTHING);
      io.say('running servers forget what they know within REVOCATION_LAG_MAX_MS');
    },
    given.config,
  );

async function intoFile(path: string, given: Given): Promise<void> {
  const { config, io } = given;
  mustBeFile(path);
  if (!exists(config.database)) {
    prepareDataFolder(config);
    await make(path, given);
    io.say(`there was no database at ${path}: it is made; start servers anew that had one there before`);
    return io.say(NEW_KNOWS_NOTHING);
  }
  const before = `${realpathSync(path)}.before-${rfc3339(Date.now()).replaceAll(':', '')}`;
  try {
    await checkFile(path);
    await using file = await hold(path);
    await replace(file, path, before, given);
  } catch (error) {
    if (isHeld(error)) throw new CommandError(openElsewhere(path)); // another restore
    if (isOutage(error, 'unreachable')) throw openError(path, error);
    if (!isOutage(error, 'damaged')) throw error;
    await replaceDamaged(path, before, given);
  }
  io.say(`what was there before is in ${before}`);
}

/** Puts a database of the backup in the place of a damaged file, after it has asked, and moves that to `before`. */
async function replaceDamaged(path: string, before: string, given: Given): Promise<void> {
  const { backup, io, yes } = given;
  await refuseIfOpenElsewhere(path);
  await io.confirm(
    `The file ${path} is damaged, so what has ended since the backup can't be told. Put the backup (${backup.keys} keys) in its place.`,
    yes,
  );
  const file = realpathSync(path);
  const made = `${before}.part`;
  await removing(partsOf(made), async () => {
    await make(made, given);
    await emptyLog(made);
    await refuseIfOpenElsewhere(path); // a server may have begun meanwhile
    // The damaged file stays until a whole database takes its place: without it a server would start empty.
    linkSync(file, before);
    for (const part of LOG) moveIfThere(`${file}${part}`, `${before}${part}`);
    renameSync(made, file);
  });
}

/** Makes a database of the backup, of which nothing is left if that fails. */
async function make(path: string, { backup, io }: Given): Promise<void> {
  makeFile(path);
  try {
    await using held = await hold(path);
    await migrate(held.db);
    await restoreFile(held.db, backup, { isNew: true, actor: byCommand(io).actor });
  } catch (error) {
    if (error instanceof CommandError) throw error; // it is another process's now
    for (const part of partsOf(realpathSync(path))) rmSync(part, { force: true });
    throw error;
  }
}

/** Moves what is in the log to the file. Throws a StoreOutage if there is no room, which SQLite, closing a file, hides. */
async function emptyLog(path: string): Promise<void> {
  await using held = await hold(path);
  await held.db.read({ sql: 'PRAGMA wal_checkpoint(TRUNCATE)' });
}

/** Holds the file alone, until it is closed or disposed of. Throws a CommandError if another process has it open. */
async function hold(path: string): Promise<FileAlone & AsyncDisposable> {
  const file = await holdAlone(path);
  if (file === null) throw new CommandError(openElsewhere(path));
  return { ...file, [Symbol.asyncDispose]: file.close };
}

/** Throws a CommandError if another process has the damaged file open, as far as SQLite can still tell. */
async function refuseIfOpenElsewhere(path: string): Promise<void> {
  const held = hold(path).then(({ close }) => close());
  await held.catch((error) => {
    if (!isOutage(error, 'damaged')) throw error;
  });
}

const isFull = (error: unknown): boolean => error instanceof StoreOutage && error.code === 'SQLITE_FULL';

const openElsewhere = (path: string) =>
  `DATABASE_URL: another process has ${JSON.stringify(path)} open (a server, a command, or a program that copies it); nothing was changed. Stop it, and restore again`;

/** Replaces what is in a file, after it has asked, and copied the file to `before`. */
async function replace({ db, copyTo }: FileAlone, path: string, before: string, given: Given): Promise<void> {
  await migrate(db);
  const options = await optionsFor(db, given);
  const unfinished = `${before}.part`;
  await removing([unfinished], async () => {
    await copyTo(unfinished);
    giveTo(statSync(path), unfinished);
    renameSync(unfinished, before);
  });
  await restoreFile(db, given.backup, options).catch((error) => {
    if (isFull(error)) rmSync(before); // nothing has changed, and the space is needed
    throw error;
  });
}

/** Creates the file. If root runs the command, the file gets its folder's owner, who runs the server. */
function makeFile(path: string): void {
  makePrivate(path);
  const file = realpathSync(path); // a link's own folder may be root's
  giveTo(statSync(dirname(file)), file);
}

/** Gives a file to the owner of another one, if root runs the command. */
function giveTo({ uid, gid }: { readonly uid: number; readonly gid: number }, file: string): void {
  if (process.getuid?.() === ROOT_UID && uid !== ROOT_UID) chownSync(file, uid, gid);
}

function moveIfThere(from: string, to: string): void {
  if (statSync(from, { throwIfNoEntry: false }) !== undefined) renameSync(from, to);
}

/** Asks, unless the database is new: one whose keys were all deleted isn't. Returns the options of the restore. */
async function optionsFor(db: Database, { backup, io, yes }: Given) {
  const options = { isNew: await isNew(db), actor: byCommand(io).actor };
  if (!options.isNew) await ask(db, backup, io, yes);
  return options;
}

async function ask(db: Database, backup: Backup, { say, confirm, progressOf }: Io, yes: boolean): Promise<void> {
  const progress = progressOf('keys compared');
  const restoring = await compare(db, backup, Date.now(), progress);
  const { replaced, refusedCount, revivedCount, revived, blockedAgain, rules } = restoring;
  for (const { ended, keyId, owner, name, fingerprint } of revived)
    say(`${ended} since: ${keyId} of ${JSON.stringify(owner)}, ${JSON.stringify(name)}, fingerprint ${fingerprint}`);
  if (revivedCount > revived.length) say(`… and ${revivedCount - revived.length} more`);
  const shown = blockedAgain.slice(0, OWNERS_SHOWN_MAX).map((owner) => JSON.stringify(owner));
  const more = blockedAgain.length > shown.length ? ` and ${blockedAgain.length - shown.length} more` : '';
  if (shown.length > 0) say(`unblocked since, and blocked again: ${shown.join(', ')}${more}`);
  for (const { id, keyId, issuer, subject } of rules)
    say(`removed since: rule ${id} of key ${keyId}, ${subject} of ${issuer}`);
  const refused = refusedCount === 0 ? '' : ` Created or rotated since, they will be refused: ${refusedCount}.`;
  const again =
    revivedCount === 0 ? '' : ` Revoked, deleted or rotated out since, they will work again: ${revivedCount}.`;
  const letIn = rules.length === 0 ? '' : ` Rules removed since, they will let tokens in again: ${rules.length}.`;
  await confirm(
    `Replace the keys that are there (${replaced}) by those of the backup (${backup.keys}).${refused}${again}${letIn}`,
    yes,
  );
}
