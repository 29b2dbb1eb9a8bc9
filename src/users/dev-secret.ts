// The secret that signs user tokens in development, in a file that only its owner can read.

import {
  closeSync,
  fstatSync,
  linkSync,
  lstatSync,
  openSync,
  readFileSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeOwn } from '../ground/private-files.ts';
import { systemRandom } from '../ground/runtime.ts';
import { reasonOf } from '../ground/text.ts';
import { JWT_SECRET_BYTES_MIN } from './identity.ts';

const SECRET_FILE = 'jwt-secret';

const SECRET_BYTES = 32;

/** Makes the secret at first use. When several processes make it at once, all use the first one's. */
export function developmentSecret(folder: string): string {
  const file = join(folder, SECRET_FILE);
  try {
    makeOwn(folder);
    return readSecret(file, makeSecret(file));
  } catch (error) {
    throw new Error(`JWT_SECRET: not set, and the development secret can't be kept in ${file}: ${reasonOf(error)}`);
  }
}

/**
 * Makes the file unless there is one: written under another name, then linked, which fails if the file exists, so no
 * process reads half a secret. Returns the Stats of a file of this process on this disk; null where none can be made.
 */
function makeSecret(file: string): Stats | null {
  const draft = `${file}.${systemRandom(8).toHex()}`;
  const secret = systemRandom(SECRET_BYTES).toBase64({ alphabet: 'base64url', omitPadding: true });
  let own: Stats | null = null;
  try {
    writeFileSync(draft, `${secret}\n`, { mode: 0o600, flag: 'wx' });
    own = statSync(draft);
    linkSync(draft, file);
  } catch (error) {
    if (lstatSync(file, { throwIfNoEntry: false }) === undefined) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return own;
}

const DELETE_IT = 'delete it, and it is made anew';

/** Throws unless it is a file as this process makes them: whoever made another may know the secret. */
function readSecret(file: string, own: Stats | null): string {
  const found = lstatSync(file);
  if (!found.isFile()) throw new Error(`it is ${found.isSymbolicLink() ? 'a link' : 'no file'}; ${DELETE_IT}`);
  const handle = openSync(file, 'r'); // Deno has no O_NOFOLLOW, so what is open is compared with what was found
  try {
    const opened = fstatSync(handle);
    if (opened.dev !== found.dev || opened.ino !== found.ino) throw new Error('it was replaced while it was read');
    checkOwner(opened, own);
    const secret = readFileSync(handle, 'utf8').trim();
    if (secret.length < JWT_SECRET_BYTES_MIN) throw new Error(`it is too short; ${DELETE_IT}`);
    return secret;
  } finally {
    closeSync(handle);
  }
}

/**
 * Compared with a file of this process, because some disks keep no owners or permissions. Where none could be made, the
 * permissions alone prove that nobody else could read the secret, unless this is root.
 */
function checkOwner(found: Stats, own: Stats | null): void {
  if (own !== null && found.uid !== own.uid) throw new Error(`it belongs to another user; ${DELETE_IT}`);
  if ((found.mode & 0o077 & ~(own?.mode ?? 0)) !== 0) {
    const mode = (found.mode & 0o777).toString(8);
    throw new Error(`others may read or write it (mode ${mode}); if nobody has, give it mode 600, else ${DELETE_IT}`);
  }
}
