// Reports the configuration: variables that are set, those that are surely not as intended, and the command that mints a
// user token for the running server.

import { isLoopback } from '../ground/ip.ts';
import { isWithinEdits } from '../ground/text.ts';
import { shownUrl } from '../ground/urls.ts';
import type { Config } from './config.ts';
import { type Env, NAMES, VARIABLES } from './env.ts';

/** Returns the set variables as the log may show them. */
export const settingsOf = (env: Env): Readonly<Record<string, string>> =>
  Object.fromEntries(
    NAMES.flatMap((name) => {
      const { [name]: value } = env;
      return value ? [[name, shownValue(name, value)]] : [];
    }),
  );

function shownValue(name: (typeof NAMES)[number], value: string): string {
  if (VARIABLES[name].shown === null) return '(not shown)';
  return value.includes('://') ? shownUrl(value) : value;
}

type Doubt = { readonly variable: string; readonly reason: string };

type Reasons = { readonly [variable in keyof Env]: string | false };

const found = (env: Env, reasons: Reasons): readonly Doubt[] =>
  Object.entries(reasons).flatMap(([variable, reason]) =>
    reason && env[variable as keyof Env] ? [{ variable, reason }] : [],
  );

export const withoutEffect = (
  env: Env,
  { database, authorizationServer, connect, mcpAuth, keysPage, keyDefaults }: Config,
): readonly Doubt[] =>
  found(env, {
    MCP_AUTH:
      mcpAuth === 'eager' &&
      authorizationServer === null &&
      connect === null &&
      'there is no authorization server: OAUTH_REDIRECTS, OAUTH_CLIENTS, or JWT_ISSUER without JWT_SECRET',
    JWT_SCOPES: (authorizationServer === null || connect !== null) && 'clients are not sent to JWT_ISSUER',
    DATABASE_AUTH_TOKEN: database.mode === 'embedded' && 'the database is a file',
    KEYS_PAGE_SIGN_IN: keysPage === null && 'KEYS_PAGE is 0',
    KEYS_PAGE_CLIENT_ID: keysPage === null && 'KEYS_PAGE is 0',
    KEYS_PAGE_SCOPE:
      keysPage === null ? 'KEYS_PAGE is 0' : keysPage.signIn === null && 'the page /keys has no KEYS_PAGE_CLIENT_ID',
    RATE_LIMIT_WINDOW: keyDefaults.rateLimit === null && 'RATE_LIMIT_REQUESTS is 0',
  });

export const contradictions = (env: Env, { publicUrl, tls, trustProxy, jwt, jwtAudience }: Config): readonly Doubt[] =>
  found(env, {
    TRUST_PROXY:
      trustProxy > 0 &&
      publicUrl === null &&
      jwtAudience === null &&
      (jwt.kind === 'jwks' || jwt.kind === 'discovery') &&
      `PUBLIC_URL is not set: no token of ${jwt.kind === 'jwks' ? 'JWT_JWKS_URL' : 'JWT_ISSUER'} has the audience that clients behind the proxy ask for`,
    PUBLIC_URL:
      publicUrl?.startsWith('http:') === true &&
      (tls !== null
        ? 'it is http, although TLS_CERT_FILE is set: clients would be sent to plain HTTP'
        : trustProxy > 0 &&
          !isLoopback(new URL(publicUrl).hostname) &&
          'it is http, although TRUST_PROXY says that a proxy is in front: clients would be sent to plain HTTP'),
  });

const NO_HOST_NAME = {
  variable: 'HOST',
  reason:
    'HOST is open to the network, but requests by any host name except localhost are refused; set PUBLIC_URL or ALLOWED_HOSTS',
};

const NO_HTTPS = {
  variable: 'NODE_ENV',
  reason:
    'in production no credential is accepted without HTTPS; set TLS_CERT_FILE and TLS_KEY_FILE, or TRUST_PROXY behind a proxy',
};

/** Returns what surely keeps clients out. */
export function keepingOut({ host, allowedHosts, publicUrl, production, tls, trustProxy }: Config): readonly Doubt[] {
  return [
    ...(!isLoopback(host) && allowedHosts === null && publicUrl === null ? [NO_HOST_NAME] : []),
    ...(production && tls === null && trustProxy === 0 ? [NO_HTTPS] : []),
  ];
}

/** The shortest name checked for misspellings. Shorter names resemble too many others. */
const NAME_CHARS_MIN = 8;
const SLIPS_MAX = 2;
/** Names that other programs read: this one is OpenSSL's. */
const OTHERS = new Set(['SSL_CERT_FILE']);

/**
 * Returns set variables whose names nearly match one of ours or of `toolVariables`, or lack words of one. None where the
 * runtime can't list variables.
 */
export function misspelt(
  env: Env,
  toolVariables: ReadonlySet<string> = new Set(),
): readonly { readonly variable: string; readonly meant: string }[] {
  const names = [...NAMES, ...toolVariables];
  const known = new Set<string>([...names, ...OTHERS]);
  return Object.keys(env)
    .filter((name) => name.length >= NAME_CHARS_MIN && !known.has(name))
    .flatMap((variable) => {
      const meant =
        names.find((name) => isWithinEdits(variable, name, SLIPS_MAX)) ??
        names.find((name) => lacksWords(variable, name));
      return meant === undefined ? [] : [{ variable, meant }];
    });
}

/** Returns whether a name is another without some words after the first: two are left at least. */
function lacksWords(given: string, name: string): boolean {
  const [first, ...rest] = given.split('_');
  const [nameFirst, ...words] = name.split('_');
  if (first !== nameFirst || rest.length === 0) return false;
  let from = 0;
  return rest.every((word) => {
    from = words.indexOf(word, from) + 1;
    return from > 0;
  });
}

// The command has the settings and claims that it needs to sign what the server accepts, and to link to its address.

export interface Running {
  readonly env: Env;
  readonly publicUrl: string;
  /** How to run a script of package.json, or the same-named command. Null: not possible here. */
  readonly runScript: string | null;
}

/** The URL of a server with default settings. */
const USUAL_URL = `http://${VARIABLES.HOST.unset}:${VARIABLES.PORT.unset}`;

/**
 * Returns the beginning of the command, by default for the shell that started the server. `shown`: how the values of
 * settings are written, but for the server's address. Null: an issuer signs, or there is none.
 */
export function mintingCommand(
  { database, jwt, jwtClaims }: Config,
  { env, publicUrl, runScript }: Running,
  shown: (value: string) => string = quoted,
): string | null {
  if (runScript === null || (jwt.kind !== 'secret' && jwt.kind !== 'dev-secret')) return null;
  // The generated secret is stored beside the database file.
  const isBesideFile = jwt.kind === 'dev-secret' && database.mode === 'embedded';
  const names = [...(isBesideFile ? (['DATABASE_URL'] as const) : []), 'JWT_ISSUER', 'JWT_AUDIENCE'] as const;
  const settings = names.filter((name) => env[name]).map((name) => `${name}=${shown(env[name] ?? '')}`);
  if (publicUrl !== USUAL_URL) settings.push(`PUBLIC_URL=${quoted(publicUrl)}`);
  const owner = jwtClaims.owner === VARIABLES.JWT_OWNER_CLAIM.unset ? [] : [`--claim ${shown(jwtClaims.owner)}=acme`];
  return [...settings, runScript, 'token', ...owner].join(' ');
}

/** Returns a text as one word of a shell. */
export const quoted = (value: string): string =>
  /^[\w./:@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
