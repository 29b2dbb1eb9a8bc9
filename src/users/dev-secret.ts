// Creates and reads the secret that signs user tokens in development, in a file that only its owner can read.

import {
  closeSync,
  existsSync,
  fstatSync,
  linkSync,
  lstatSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeOwn } from '../ground/private-files.ts';
import { systemRandom } from '../ground/runtime.ts';
import { reasonOf } from '../ground/text.ts';
import { JWT_SECRET_BYTES_MIN } from './verification-keys.ts';

const SECRET_BYTES = 32;
const DELETE_IT = 'delete it, and it is made anew';

/**
 * Returns the secret, creating it on first use. If several processes create it at once, all use the first one's.
 * `onMade` is called in the process that created it.
 */
export function developmentSecret(folder: string, onMade: (file: string) => void = () => {}): string {
  const file = join(folder, 'jwt-secret');
  try {
    makeOwn(folder);
    return madeOrFound(file, onMade);
  } catch (error) {
    throw new Error(`JWT_SECRET: not set, and the development secret can't be kept in ${file}: ${reasonOf(error)}`);
  }
}

/** Creates or finds the secret. To find it takes no room, which a full disk lacks. */
function madeOrFound(file: string, onMade: (file: string) => void): string {
  const draft = `${file}.${systemRandom(8).toHex()}`;
  try {
    writeFileSync(draft, '', { mode: 0o600, flag: 'wx' });
    if (!existsSync(file)) make(file, draft, onMade);
    return read(file, draft);
  } finally {
    if (existsSync(draft)) rmSync(draft); // on a read-only disk even removing nothing is an error
  }
}

/** Creates the secret in the draft, then links it, which fails if the file exists: no process reads half a secret. */
function make(file: string, draft: string, onMade: (file: string) => void): void {
  const secret = systemRandom(SECRET_BYTES).toBase64({ alphabet: 'base64url', omitPadding: true });
  writeFileSync(draft, `${secret}\n`);
  try {
    linkSync(draft, file);
    onMade(file);
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
  }
}

/**
 * Reads the secret. Throws unless the file has the owner and permissions of `own`, which this process created beside
 * it: somebody else may know the secret. (Some disks keep no owners or permissions.)
 */
function read(file: string, own: string): string {
  const found = lstatSync(file);
  if (!found.isFile()) throw new Error(`it is ${found.isSymbolicLink() ? 'a link' : 'no file'}; ${DELETE_IT}`);
  const handle = openSync(file, 'r'); // Deno has no O_NOFOLLOW, so compare the open file with the one found
  try {
    const { dev, ino, uid, mode } = fstatSync(handle);
    if (dev !== found.dev || ino !== found.ino) throw new Error('it was replaced while it was read');
    const usual = statSync(own);
    if (uid !== usual.uid) throw new Error(`it belongs to another user; ${DELETE_IT}`);
    if ((mode & 0o077 & ~usual.mode) !== 0) {
      const shown = (mode & 0o777).toString(8);
      throw new Error(
        `others may read or write it (mode ${shown}); if nobody has, give it mode 600, else ${DELETE_IT}`,
      );
    }
    const secret = readFileSync(handle, 'utf8').trim();
    if (secret.length < JWT_SECRET_BYTES_MIN) throw new Error(`it is too short; ${DELETE_IT}`);
    return secret;
  } finally {
    closeSync(handle);
  }
}
