// The settings that the command `token` needs beside a server, to sign what that server accepts.

import type { Config } from './config.ts';
import type { Env } from './env.ts';

export type TokenSetting = 'DATABASE_URL' | 'JWT_ISSUER' | 'JWT_AUDIENCE';

/** Those that are set. The made-up secret lies beside the database file. */
export function tokenSettings({ database, jwt }: Pick<Config, 'database' | 'jwt'>, env: Env): TokenSetting[] {
  const isBesideFile = jwt.kind === 'dev-secret' && database.mode === 'embedded';
  const names: TokenSetting[] = [...(isBesideFile ? (['DATABASE_URL'] as const) : []), 'JWT_ISSUER', 'JWT_AUDIENCE'];
  return names.filter((name) => env[name]);
}

/** What begins the command for anybody to read: the settings are named without their values. Null: tokens are an issuer's. */
export function mintingCommand(config: Pick<Config, 'database' | 'jwt'>, env: Env, runScript: string): string | null {
  const { kind } = config.jwt;
  if (kind !== 'secret' && kind !== 'dev-secret') return null;
  return [...tokenSettings(config, env).map((name) => `${name}=…`), runScript, 'token'].join(' ');
}
