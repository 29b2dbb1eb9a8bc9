// Builds the command that mints a user token for a running server, with the settings it needs to sign what that server
// accepts and to link to its address.

import type { Config } from './config.ts';
import { type Env, VARIABLES } from './env.ts';

export interface Running {
  readonly env: Env;
  readonly publicUrl: string;
  /** How to run a script of package.json, or the same-named command. Null: not possible here. */
  readonly runScript: string | null;
}

/** The URL of a server with default settings. */
const USUAL_URL = `http://${VARIABLES.HOST.unset}:${VARIABLES.PORT.unset}`;

/** Returns the beginning of the command, for the shell that started the server. Null: an issuer signs, or there is none. */
export const mintingCommand = (config: Config, running: Running): string | null => commandOf(config, running, quoted);

/** Returns the same for anyone to read: with the server's address, but only the names of other settings. */
export const shownMintingCommand = (config: Config, running: Running): string | null =>
  commandOf(config, running, () => '…');

function commandOf(
  { database, jwt }: Config,
  { env, publicUrl, runScript }: Running,
  shown: (value: string) => string,
) {
  if (runScript === null || (jwt.kind !== 'secret' && jwt.kind !== 'dev-secret')) return null;
  // The generated secret is stored beside the database file.
  const isBesideFile = jwt.kind === 'dev-secret' && database.mode === 'embedded';
  const names = [...(isBesideFile ? (['DATABASE_URL'] as const) : []), 'JWT_ISSUER', 'JWT_AUDIENCE'] as const;
  const settings = names.filter((name) => env[name]).map((name) => `${name}=${shown(env[name] ?? '')}`);
  if (publicUrl !== USUAL_URL) settings.push(`PUBLIC_URL=${quoted(publicUrl)}`);
  return [...settings, runScript, 'token'].join(' ');
}

const quoted = (value: string) => (/^[\w./:@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`);
