// The folder beside the database: made when missing, and the home of the development secret.

import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { systemRandom } from './clock.ts';
import { type DatabaseConfig, JWT_SECRET_BYTES_MIN } from './config.ts';

/** Where the secret of a remote database's development server is kept: there is no file to keep it beside. */
const DEFAULT_FOLDER = './data';
const SECRET_FILE = 'jwt-secret';
const SECRET_BYTES = 32;

const folderOf = (database: DatabaseConfig) => (database.mode === 'embedded' ? dirname(database.path) : DEFAULT_FOLDER);

/** Makes the folders that database files go into. Throws an Error that names the variable. */
export function prepareDataFolder(database: DatabaseConfig): void {
  if (database.mode === 'embedded') makeFolder('DATABASE_URL', dirname(database.path));
  else if (database.replicaFile !== null) makeFolder('DATABASE_REPLICA_FILE', dirname(database.replicaFile));
}

/** For its owner alone: the database says who holds which keys. A folder that exists is left as it is. */
const makeOwn = (folder: string) => mkdirSync(folder, { recursive: true, mode: 0o700 });

function makeFolder(variable: string, folder: string): void {
  try {
    makeOwn(folder);
  } catch (error) {
    throw new Error(
      `${variable}: expected a folder that can be made and written, but ${reasonOf(error)}, got ${JSON.stringify(folder)}`,
    );
  }
}

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

function readSecret(file: string): string | null {
  try {
    const secret = readFileSync(file, 'utf8').trim();
    if (secret.length < JWT_SECRET_BYTES_MIN) throw new Error('it is too short; delete it, and it is made anew');
    return secret;
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return null;
    throw error;
  }
}

// Written whole under another name, then linked: the link fails if the file exists, and nobody reads half a secret.
function makeSecret(file: string): string {
  const draft = `${file}.${systemRandom(8).toHex()}`;
  const secret = systemRandom(SECRET_BYTES).toBase64({ alphabet: 'base64url', omitPadding: true });
  writeFileSync(draft, `${secret}\n`, { mode: 0o600, flag: 'wx' });
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

const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
