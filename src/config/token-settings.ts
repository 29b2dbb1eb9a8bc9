// The command that mints a user token for a running server, with the settings that it needs beside that server, to sign
// what the server accepts, and to link to where it is.

import type { Config } from './config.ts';
import { type Env, VARIABLES } from './env.ts';

type Minted = Pick<Config, 'database' | 'jwt'>;

export interface Running {
  readonly env: Env;
  readonly publicUrl: string;
  /** Runs a script of package.json, or the command `token` in its place. Null: here nothing does. */
  readonly runScript: string | null;
}

/** The URL of a server whose address no setting changes. */
const USUAL_URL = `http://${VARIABLES.HOST.unset}:${VARIABLES.PORT.unset}`;

/**
 * Returns what begins the command, in the shell that started the server. Null: tokens are an issuer's, or no command is
 * there.
 */
export const mintingCommand = (config: Minted, running: Running): string | null => commandOf(config, running, quoted);

/**
 * Returns the same for anybody to read. It has the server's address, which they know, and of other settings only the
 * names.
 */
export const shownMintingCommand = (config: Minted, running: Running): string | null =>
  commandOf(config, running, () => '…');

function commandOf(
  { database, jwt }: Minted,
  { env, publicUrl, runScript }: Running,
  shown: (value: string) => string,
) {
  if (runScript === null || (jwt.kind !== 'secret' && jwt.kind !== 'dev-secret')) return null;
  // The made-up secret lies beside the database file.
  const isBesideFile = jwt.kind === 'dev-secret' && database.mode === 'embedded';
  const names = [...(isBesideFile ? (['DATABASE_URL'] as const) : []), 'JWT_ISSUER', 'JWT_AUDIENCE'] as const;
  const settings = names.filter((name) => env[name]).map((name) => `${name}=${shown(env[name] ?? '')}`);
  if (publicUrl !== USUAL_URL) settings.push(`PUBLIC_URL=${quoted(publicUrl)}`);
  return [...settings, runScript, 'token'].join(' ');
}

const quoted = (value: string) => (/^[\w./:@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`);
