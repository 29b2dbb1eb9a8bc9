// Composes what the operator reads when the server has started: in production a start line and lines of the log, otherwise a
// banner.

import type { Config } from '../config/config.ts';
import { keepingOut, mintingCommand, type Running } from '../config/settings-report.ts';
import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { keysPageUrl, shownUrl } from '../ground/urls.ts';
import type { Log } from '../watch/log.ts';

const WITH_SECRET = '\n                           where JWT_SECRET is set as it is here';

interface BannerFacts extends Running {
  readonly listening: string;
  /** The names of what each of the operator's tool files offers. */
  readonly custom: ReadonlyMap<string, readonly string[]>;
  readonly folder: { readonly path: string; exists(): boolean };
}

function ownTools({ custom, folder }: BannerFacts): string {
  if (custom.size === 0)
    return `  tools of your own        none: ${folder.path} ${folder.exists() ? 'has none' : 'does not exist'}\n`;
  return [...custom].map(([file, names]) => `  tools of your own        ${names.join(', ')} (${file})\n`).join('');
}

function signInLine({ jwt, jwtIssuer }: Config, mints: string | null): string {
  if (mints !== null) return `sign in (mint a token)   ${mints} --sub alice${jwt.kind === 'secret' ? WITH_SECRET : ''}`;
  if (jwt.kind === 'secret') return 'user tokens are signed   with JWT_SECRET';
  if (jwt.kind === 'dev-secret') return 'user tokens are signed   with a secret that was made up; set JWT_SECRET';
  return `users sign in at         ${jwtIssuer ?? 'the issuer of the key set'}`;
}

const startLine = (listening: string): string => `${SERVER_NAME} ${SERVER_VERSION} listening on ${listening}\n`;

const placeOf = ({ database }: Config): string =>
  database.mode === 'embedded' ? `file:${database.path}` : shownUrl(database.url);

/** Logs what the banner says, for production, and returns the start line: on stderr are errors, and that it listens. */
export function logListening(config: Config, { listening, publicUrl }: BannerFacts, log: Log): string {
  for (const doubt of keepingOut(config)) log.warn('variable contradicts another', doubt);
  log.info('listening', {
    on: listening,
    clients: `${publicUrl}/mcp`,
    page: config.keysPage === null ? null : keysPageUrl(publicUrl),
    database: placeOf(config),
  });
  return startLine(listening);
}

export function banner(config: Config, facts: BannerFacts): string {
  const { listening, publicUrl } = facts;
  const mints = mintingCommand(config, facts);
  const warnings = keepingOut(config).map(({ reason }) => `  warning: ${reason}\n`);
  return `${startLine(listening)}  environment              ${config.environment}
  MCP clients connect to   ${publicUrl}/mcp
${config.keysPage === null ? '' : `  people manage keys at    ${keysPageUrl(publicUrl)}${mints === null ? '' : ' (token --link makes a link)'}\n`}  keys are kept in         ${placeOf(config)}
${ownTools(facts)}  ${signInLine(config, mints)}
${warnings.join('')}`;
}
