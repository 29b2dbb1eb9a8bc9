// Composes the banner that the operator reads when the server has started.

import type { Config } from '../config/config.ts';
import { mintingCommand, type Running } from '../config/token-settings.ts';
import { isLoopback } from '../ground/ip.ts';
import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { keysPageUrl, shownUrl } from '../ground/urls.ts';

const NO_HOST_NAME_WARNING =
  '  warning: HOST is open to the network, but requests by any host name except localhost are refused; set PUBLIC_URL or ALLOWED_HOSTS\n';

const NO_HTTPS_WARNING =
  '  warning: in production no credential is accepted without HTTPS; set TLS_CERT_FILE and TLS_KEY_FILE, or TRUST_PROXY behind a proxy\n';

const WITH_SECRET = '\n                           where JWT_SECRET is set as it is here';

export interface BannerFacts extends Running {
  readonly listening: string;
  /** The names of what each of the operator's tool files offers. */
  readonly custom: ReadonlyMap<string, readonly string[]>;
  /** The operator's folder of tools, and whether it exists. */
  readonly folder: string;
  readonly hasFolder: boolean;
}

function ownTools({ custom, folder, hasFolder }: BannerFacts): string {
  if (custom.size === 0)
    return `  tools of your own        none: ${folder} ${hasFolder ? 'has none' : 'does not exist'}\n`;
  return [...custom].map(([file, names]) => `  tools of your own        ${names.join(', ')} (${file})\n`).join('');
}

function signInLine({ jwt, jwtIssuer }: Config, mints: string | null): string {
  if (mints !== null) return `sign in (mint a token)   ${mints} --sub alice${jwt.kind === 'secret' ? WITH_SECRET : ''}`;
  if (jwt.kind === 'secret') return 'user tokens are signed   with JWT_SECRET';
  if (jwt.kind === 'dev-secret') return 'user tokens are signed   with a secret that was made up; set JWT_SECRET';
  return `users sign in at         ${jwtIssuer ?? 'the issuer of the key set'}`;
}

export function banner(config: Config, facts: BannerFacts): string {
  const { listening, publicUrl } = facts;
  const { database } = config;
  const where = database.mode === 'embedded' ? `file:${database.path}` : shownUrl(database.url);
  const mints = mintingCommand(config, facts);
  const unnamed = !isLoopback(config.host) && config.allowedHosts === null && config.publicUrl === null;
  const insecure = config.production && config.tls === null && config.trustProxy === 0;
  const signIn = signInLine(config, mints);
  return `${SERVER_NAME} ${SERVER_VERSION} listening on ${listening}
  environment              ${config.environment}
  MCP clients connect to   ${publicUrl}/mcp
${config.keysPage === null ? '' : `  people manage keys at    ${keysPageUrl(publicUrl)}${mints === null ? '' : ' (token --link makes a link)'}\n`}  keys are kept in         ${where}
${ownTools(facts)}  ${signIn}
${unnamed ? NO_HOST_NAME_WARNING : ''}${insecure ? NO_HTTPS_WARNING : ''}`;
}
