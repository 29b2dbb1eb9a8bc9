// What the operator reads when the server has started.

import { type Config, keysPageUrl } from '../config/config.ts';
import { shownUrl } from '../config/urls.ts';
import { isLoopback } from '../lib/ip.ts';
import { SERVER_NAME, SERVER_VERSION } from '../lib/server-info.ts';

export function addressOf({ host, tls }: Config, port: number): string {
  return `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

const NO_HOST_NAME_WARNING =
  '  warning: HOST is open to the network, but requests by any host name except localhost are refused; set PUBLIC_URL or ALLOWED_HOSTS\n';

const NO_HTTPS_WARNING =
  '  warning: in production no credential is accepted without HTTPS; set TLS_CERT_FILE and TLS_KEY_FILE, or TRUST_PROXY behind a proxy\n';

export interface BannerFacts {
  readonly listening: string;
  readonly publicUrl: string;
  /** What runs a script of package.json. */
  readonly runScript: string;
}

export function banner(config: Config, { listening, publicUrl, runScript }: BannerFacts): string {
  const { database, jwt } = config;
  const where = database.mode === 'embedded' ? `file:${database.path}` : shownUrl(database.url);
  const signIn =
    jwt.kind === 'secret' || jwt.kind === 'dev-secret'
      ? `sign in (mint a token)   ${runScript} token --sub alice`
      : `users sign in at         ${config.jwtIssuer ?? 'the issuer of the key set'}`;
  const unnamed = !isLoopback(config.host) && config.allowedHosts === null && config.publicUrl === null;
  const insecure = config.production && config.tls === null && config.trustProxy === 0;
  return `${SERVER_NAME} ${SERVER_VERSION} listening on ${listening}
  environment              ${config.environment}
  MCP clients connect to   ${publicUrl}/mcp
${config.keysPage === null ? '' : `  people manage keys at    ${keysPageUrl(publicUrl)}\n`}  keys are kept in         ${where}
  ${signIn}
${unnamed ? NO_HOST_NAME_WARNING : ''}${insecure ? NO_HTTPS_WARNING : ''}`;
}
