// The secret that signs user tokens in development, kept in a file that is its owner's alone.

import {
  closeSync,
  fstatSync,
  linkSync,
  lstatSync,
  openSync,
  readFileSync,
  type Stats,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type DatabaseConfig, JWT_SECRET_BYTES_MIN } from '../config/config.ts';
import { makeOwn } from '../lib/private-files.ts';
import { systemRandom } from '../lib/runtime.ts';
import { reasonOf } from '../lib/text.ts';

/** Holds the development secret when the database is remote, with no file to keep it beside. */
const DEFAULT_FOLDER = './data';

const SECRET_FILE = 'jwt-secret';

const SECRET_BYTES = 32;

const folderOf = (database: DatabaseConfig) => (database.mode === 'embedded' ? dirname(database.path) : DEFAULT_FOLDER);

/** The development secret, made at first use. When several processes make it at once, all use the first one's. */
export function developmentSecret(database: DatabaseConfig): string {
  const folder = folderOf(database);
  const file = join(folder, SECRET_FILE);
  try {
    makeOwn(folder);
    return readSecret(file) ?? makeSecret(file);
  } catch (error) {
    throw new Error(`JWT_SECRET: not set, and the development secret can't be kept in ${file}: ${reasonOf(error)}`);
  }
}

const DELETE_IT = 'delete it, and it is made anew';

/** Null if there is none. Throws unless it is a file as this process makes them: who put it there may know the secret. */
function readSecret(file: string): string | null {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (found === undefined) return null;
  if (!found.isFile()) throw new Error(`it is ${found.isSymbolicLink() ? 'a link' : 'no file'}; ${DELETE_IT}`);
  const handle = openSync(file, 'r'); // Deno has no O_NOFOLLOW, so what is open is compared with what was found
  try {
    const opened = fstatSync(handle);
    if (opened.dev !== found.dev || opened.ino !== found.ino) throw new Error('it was replaced while it was read');
    checkOwner(opened, madeBeside(file));
    const secret = readFileSync(handle, 'utf8').trim();
    if (secret.length < JWT_SECRET_BYTES_MIN) throw new Error(`it is too short; ${DELETE_IT}`);
    return secret;
  } finally {
    closeSync(handle);
  }
}

/** Compared with a file of our own, because some disks keep no owners or permissions, and give all files the same. */
function checkOwner(found: Stats, own: Stats | null): void {
  if (own !== null && found.uid !== own.uid) throw new Error(`it belongs to another user; ${DELETE_IT}`);
  if ((found.mode & 0o077 & ~(own?.mode ?? 0)) !== 0) {
    const mode = (found.mode & 0o777).toString(8);
    throw new Error(`others may read or write it (mode ${mode}); if nobody has, give it mode 600, else ${DELETE_IT}`);
  }
}

/** A file of this process beside `file`, made for its owner alone and removed again; null where none can be made. */
function madeBeside(file: string): Stats | null {
  const draft = draftOf(file);
  try {
    writeFileSync(draft, '', FOR_OWNER);
  } catch {
    return null; // then the permissions are proof enough, unless this is root: nobody else could have read the secret
  }
  try {
    return statSync(draft);
  } finally {
    unlinkSync(draft);
  }
}

const draftOf = (file: string) => `${file}.${systemRandom(8).toHex()}`;

const FOR_OWNER = { mode: 0o600, flag: 'wx' } as const;

// Written in full under another name, then linked: linking fails if the file exists, and no process reads half a
// secret.
function makeSecret(file: string): string {
  const draft = draftOf(file);
  const secret = systemRandom(SECRET_BYTES).toBase64({ alphabet: 'base64url', omitPadding: true });
  writeFileSync(draft, `${secret}\n`, FOR_OWNER);
  try {
    linkSync(draft, file);
    return secret;
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
    const winner = readSecret(file);
    if (winner === null) throw error;
    return winner;
  } finally {
    unlinkSync(draft);
  }
}
