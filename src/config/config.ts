// Configuration: environment variables in, a checked Config or the list of what is wrong out. Pure; reads nothing
// itself. The table of variables, defaults and meanings is in the README.

import { parseDuration } from '../lib/duration.ts';
import { isLoopback } from '../lib/ip.ts';
import { isKeyPrefix } from '../lib/key-prefix.ts';
import { err, ok, type Result } from '../lib/result.ts';
import { isScope, splitScopes } from '../lib/scope.ts';
import { LOG_LEVELS, type LogLevel } from '../log/log.ts';
import { type Env, type EnvReader, envReader } from './env.ts';
import { type Environment, environment, mayMakeSecret } from './environment.ts';

/** How user JWTs are verified: a shared secret, or the key set of an issuer. */
export type JwtConfig =
  | { readonly kind: 'secret'; readonly secret: string; readonly previous: string | null } // signed with the first
  | { readonly kind: 'dev-secret' } // made at first start, kept in a file
  | { readonly kind: 'jwks'; readonly url: URL }
  | { readonly kind: 'discovery'; readonly issuer: string }; // the issuer's metadata names the key set

export interface RemoteConfig {
  readonly mode: 'remote';
  readonly url: string;
  readonly authToken: string | null;
  readonly replicaFile: string | null;
}

export type DatabaseConfig = { readonly mode: 'embedded'; readonly path: string } | RemoteConfig;

/** The page as a client of the issuer: a public one, because nothing in a page is secret. */
export interface KeysPageSignIn {
  readonly issuer: string;
  readonly clientId: string;
  /** What it asks for, with spaces between. */
  readonly scope: string;
}

export interface Config extends Environment {
  readonly host: string;
  readonly port: number;
  /** Whether several processes listen on this port. */
  readonly reusePort: boolean;
  readonly basePath: string;
  /** Without trailing slash. Null: derived from the listening address. */
  readonly publicUrl: string | null;
  readonly database: DatabaseConfig;
  readonly revocationLagMaxMs: number;
  /** What any key may have: null for no bound. */
  readonly keyCeilings: { readonly scopes: readonly string[] | null; readonly daysMax: number | null };
  /** Where a new key is shown over MCP. */
  readonly keyReveal: 'result' | 'widget';
  readonly jwt: JwtConfig;
  readonly jwtIssuer: string | null;
  readonly jwtAudience: string | null;
  /** The claims of a user token that say who owns its user's keys, and (null: none) what that user may grant. */
  readonly jwtClaims: {
    readonly owner: string;
    readonly scope: string | null;
    readonly admin: { readonly name: string; readonly value: string } | null;
  };
  /** The issuer that OAuth clients are sent to. Null: they are never challenged. */
  readonly authorizationServer: string | null;
  /** The page where people manage their keys. Null: there is none. */
  readonly keysPage: {
    /** Where its visitors sign in. Null: with a link, or a token that they paste. */
    readonly signIn: KeysPageSignIn | null;
  } | null;
  /** `eager` has an effect only with an authorization server. */
  readonly mcpAuth: 'lazy' | 'eager';
  readonly rateLimit: { readonly requests: number; readonly windowMs: number };
  /** Null: loopback origins and the public one. */
  readonly allowedOrigins: readonly string[] | null;
  /** Lower-case names without port. Null: loopback names and the public one. */
  readonly allowedHosts: readonly string[] | null;
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  /** How many proxies in front to believe. */
  readonly trustProxy: number;
  /** What new keys begin with. */
  readonly keyPrefix: string;
  /** Days that events of keys are kept. */
  readonly eventDays: number;
  /** Whether events of keys say where a change came from. */
  readonly eventAddresses: boolean;
  /** The folder with tools of one's own. Null: ./tools, where it exists. */
  readonly toolsDir: string | null;
  /** Whether get_data is offered. */
  readonly sampleTool: boolean;
  readonly logLevel: LogLevel;
  readonly accessLog: boolean;
  /** Null: there are no metrics. */
  readonly metricsToken: string | null;
}

const keyPrefix = (value: string) => (isKeyPrefix(value) ? value : null);

/** Somewhat more than a year: what happens once a year is still there the next time. */
const EVENT_DAYS = 400;

/** Short tokens can be guessed: nothing counts wrong ones. */
const METRICS_TOKEN_CHARS_MIN = 16;

export const JWT_SECRET_BYTES_MIN = 32; // HS256 needs a key at least as long as the hash (RFC 7518 §3.2)

/**
 * The configuration, or everything that is wrong with it: one line for each bad variable. A command that signs and
 * verifies nothing does without the secret of user tokens, which an operator's shell need not have.
 */
export function parseConfig(env: Env, { verifiesUsers = true } = {}): Result<Config, readonly string[]> {
  const read = envReader(env);
  const { text, parsed, integer, oneOf, faults } = read;
  const runsAs = environment(read);
  const port = integer('PORT', 0, 65535) ?? 3000;
  const reusePort = oneOf('REUSE_PORT', ['0', '1']) === '1';
  // The system would pick another one for each process.
  if (reusePort && port === 0) read.fault('PORT', '1-65535, because REUSE_PORT is set', '0');
  const users = userTokens(read, verifiesUsers && !mayMakeSecret(runsAs) ? runsAs.environment : null);
  const config: Config = {
    ...runsAs,
    host: parsed('HOST', 'an address or host name', hostName) ?? '127.0.0.1',
    port,
    reusePort,
    basePath: parsed('BASE_PATH', 'a path like /keys, without a slash at its end', basePath) ?? '',
    publicUrl: parsed('PUBLIC_URL', 'an http or https URL without query, user or fragment', publicUrl, outlinedUrl),
    database: databaseConfig(read, runsAs.production),
    revocationLagMaxMs: integer('REVOCATION_LAG_MAX_MS', 250, 60_000) ?? 1000,
    keyCeilings: {
      scopes: parsed('KEY_SCOPES', SCOPES_EXPECTED, scopeNames),
      daysMax: integer('KEY_MAX_DAYS', 1, 36_500),
    },
    keyReveal: oneOf('KEY_REVEAL', ['result', 'widget']) ?? 'result',
    ...users,
    jwtClaims: {
      owner: text('JWT_OWNER_CLAIM') ?? 'sub',
      scope: text('JWT_SCOPE_CLAIM'),
      admin: parsed('ADMIN_CLAIM', 'a claim and its value, like roles=keys-admin', claimAndValue),
    },
    keysPage: keysPage(read, users.jwt.kind === 'secret' ? null : users.jwtIssuer),
    mcpAuth: oneOf('MCP_AUTH', ['lazy', 'eager']) ?? 'lazy',
    rateLimit: {
      requests: integer('RATE_LIMIT_REQUESTS', 0, 1_000_000_000) ?? 1000,
      windowMs: parsed('RATE_LIMIT_WINDOW', 'a window like 30s, 5m, 1h or 1d', parseDuration) ?? 3_600_000,
    },
    allowedOrigins: parsed(
      'ALLOWED_ORIGINS',
      'origins like https://app.example, with commas between',
      listOf(webOrigin),
    ),
    allowedHosts: parsed('ALLOWED_HOSTS', 'host names without port, with commas between', listOf(bareHostName)),
    tls: tlsFiles(read),
    trustProxy: integer('TRUST_PROXY', 0, 32) ?? 0,
    keyPrefix: parsed('KEY_PREFIX', '2-12 of a-z and 0-9', keyPrefix) ?? 'sk',
    eventDays: integer('EVENT_DAYS', 1, 36_500) ?? EVENT_DAYS,
    eventAddresses: oneOf('EVENT_ADDRESSES', ['0', '1']) !== '0',
    toolsDir: text('TOOLS_DIR'),
    sampleTool: oneOf('SAMPLE_TOOL', ['0', '1']) !== '0',
    logLevel: oneOf('LOG_LEVEL', LOG_LEVELS) ?? 'info',
    accessLog: oneOf('ACCESS_LOG', ['0', '1']) === '1',
    metricsToken: metricsToken(read),
  };
  return faults.length > 0 ? err(faults) : ok(config);
}

/** A URL that is safe to show: without user-info and query, even if it is malformed. */
export function shownUrl(url: string): string {
  // Everything up to the last @ goes: a password may hold any character, ? and / included. A file URL has no user.
  const withoutUser = /^file:/i.test(url) ? url : url.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, '$1');
  return withoutUser.replace(/[?#].*$/s, '');
}

/** The same with marks for what is left out, which may be what is wrong with it. */
function outlinedUrl(url: string): string {
  const user = url.includes('@') ? '://…@' : '://';
  return shownUrl(url).replace('://', user) + (url.includes('?') ? '?…' : '') + (url.includes('#') ? '#…' : '');
}

const SCOPES_EXPECTED = 'scopes with spaces between, each 1-100 printable ASCII characters without quote or backslash';

function scopeNames(value: string): readonly string[] | null {
  const names = splitScopes(value);
  return names.length > 0 && names.every(isScope) ? [...new Set(names)] : null;
}

function claimAndValue(text: string): { name: string; value: string } | null {
  const [, name, value] = /^([^=\s]+)=(\S+)$/.exec(text) ?? [];
  return name === undefined || value === undefined ? null : { name, value };
}

const hostName = (value: string) => (/^[\w.:-]+$/.test(value) ? value : null);

const bareHostName = (value: string) => (/^[\w.-]+$/.test(value) ? value.toLowerCase() : null);

// A client would resolve . and .. before it sends the path (RFC 3986 §5.2.4).
const basePath = (value: string) => (/^(\/(?!\.{1,2}(\/|$))[\w.~-]+)+$/.test(value) ? value : null);

function webUrl(value: string): URL | null {
  const url = URL.canParse(value) ? new URL(value) : null;
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : null;
}

function publicUrl(value: string): string | null {
  const url = webUrl(value);
  if (url === null || url.search || url.hash || url.username || url.password) return null;
  return (url.origin + url.pathname).replace(/\/+$/, '');
}

function webOrigin(value: string): string | null {
  const origin = value.toLowerCase();
  return webUrl(value)?.origin === origin ? origin : null;
}

// Keys and metadata fetched over plain HTTP could come from anybody.
function trustedUrl(value: string): URL | null {
  const url = webUrl(value);
  return url !== null && !url.username && !url.password && (url.protocol === 'https:' || isLoopback(url.hostname))
    ? url
    : null;
}

// Tokens and metadata must repeat the issuer exactly (RFC 8414 §3.3), so its text is kept, not the normalized URL.
const issuerText = (value: string) => (trustedUrl(value) && !/[?#]/.test(value) ? value : null);

const listOf = (parse: (item: string) => string | null) => (value: string) => {
  const items = value.split(',').map((item) => parse(item.trim()));
  return items.every((item) => item !== null) ? items : null;
};

function tlsFiles({ text, fault }: EnvReader): Config['tls'] {
  const [certFile, keyFile] = [text('TLS_CERT_FILE'), text('TLS_KEY_FILE')];
  if (certFile !== null && keyFile !== null) return { certFile, keyFile };
  if (certFile !== null) fault('TLS_KEY_FILE', 'a file, because TLS_CERT_FILE is set');
  if (keyFile !== null) fault('TLS_CERT_FILE', 'a file, because TLS_KEY_FILE is set');
  return null;
}

/** Who signs user tokens, and what they must say. `demandedIn`: the environment in which something must say it. */
function userTokens(
  { text, parsed, fault }: EnvReader,
  demandedIn: string | null,
): Pick<Config, 'jwt' | 'jwtIssuer' | 'jwtAudience' | 'authorizationServer'> {
  const secret = text('JWT_SECRET');
  const previous = text('JWT_SECRET_PREVIOUS');
  const jwksUrl = parsed('JWT_JWKS_URL', 'an https URL (http on loopback only)', trustedUrl, outlinedUrl);
  const jwtAudience = text('JWT_AUDIENCE');
  if (secret !== null) {
    for (const name of ['JWT_SECRET', 'JWT_SECRET_PREVIOUS'] as const) {
      const value = text(name);
      if (value !== null && new TextEncoder().encode(value).length < JWT_SECRET_BYTES_MIN) {
        fault(name, `at least ${JWT_SECRET_BYTES_MIN} bytes (the value is not shown)`);
      }
    }
    const url = text('JWT_JWKS_URL');
    if (url !== null) {
      fault('JWT_JWKS_URL', 'to be unset while JWT_SECRET is set: one of the two decides', shownUrl(url));
    }
    return {
      jwt: { kind: 'secret', secret, previous },
      jwtIssuer: text('JWT_ISSUER'),
      jwtAudience,
      authorizationServer: null,
    };
  }
  if (previous !== null) fault('JWT_SECRET_PREVIOUS', 'to be unset without JWT_SECRET (the value is not shown)');
  const expected = 'an https URL (http on loopback only) without query and fragment';
  const issuer = parsed('JWT_ISSUER', expected, issuerText, outlinedUrl);
  if (demandedIn !== null && text('JWT_JWKS_URL') === null && text('JWT_ISSUER') === null) {
    fault('JWT_SECRET', `JWT_SECRET, JWT_JWKS_URL or JWT_ISSUER to be set in ${demandedIn}`);
  }
  return { jwt: issuerKeys(jwksUrl, issuer), jwtIssuer: issuer, jwtAudience, authorizationServer: issuer };
}

function keysPage({ text, parsed, oneOf, fault }: EnvReader, issuer: string | null): Config['keysPage'] {
  const isOn = oneOf('KEYS_PAGE', ['0', '1']) !== '0';
  const clientId = text('KEYS_PAGE_CLIENT_ID');
  const scope = parsed('KEYS_PAGE_SCOPE', SCOPES_EXPECTED, scopeNames) ?? ['openid'];
  if (clientId !== null && issuer === null) {
    fault('KEYS_PAGE_CLIENT_ID', 'JWT_ISSUER beside it, and no JWT_SECRET', clientId);
  }
  if (!isOn) return null;
  return { signIn: clientId === null || issuer === null ? null : { issuer, clientId, scope: scope.join(' ') } };
}

function issuerKeys(jwksUrl: URL | null, issuer: string | null): JwtConfig {
  if (jwksUrl !== null) return { kind: 'jwks', url: jwksUrl };
  return issuer !== null ? { kind: 'discovery', issuer } : { kind: 'dev-secret' };
}

function metricsToken({ text, fault }: EnvReader): string | null {
  const token = text('METRICS_TOKEN');
  if (token !== null && (token.length < METRICS_TOKEN_CHARS_MIN || !HEADER_TEXT.test(token))) {
    const expected = `at least ${METRICS_TOKEN_CHARS_MIN} printable ASCII characters without space`;
    fault('METRICS_TOKEN', `${expected} (the value is not shown)`);
  }
  return token;
}

/** What may follow `Bearer `: a little more than RFC 9110 §11.4 allows. */
const HEADER_TEXT = /^[\x21-\x7e]+$/;

function databaseConfig({ text, fault }: EnvReader, production: boolean): DatabaseConfig {
  const url = text('DATABASE_URL') ?? 'file:./data/keys.db';
  const authToken = text('DATABASE_AUTH_TOKEN');
  const replicaFile = text('DATABASE_REPLICA_FILE');
  if (authToken !== null && !HEADER_TEXT.test(authToken)) {
    fault('DATABASE_AUTH_TOKEN', 'printable ASCII on one line (the value is not shown)');
  }
  if (/^(https?|libsql):\/\/[^/]/i.test(url) && URL.canParse(url)) {
    if (production && sendsInClear(new URL(url), authToken)) {
      const expected =
        'an https or libsql URL (http and tls=0 on loopback only) in production, because a credential is sent';
      fault('DATABASE_URL', expected, shownUrl(url));
    }
    return { mode: 'remote', url, authToken, replicaFile };
  }
  const path = filePath(url);
  if (path === null) {
    fault('DATABASE_URL', 'file:<path>, http(s)://… or libsql://…', shownUrl(url));
  } else if (replicaFile !== null) {
    fault('DATABASE_REPLICA_FILE', 'a remote DATABASE_URL beside it', replicaFile);
  }
  return { mode: 'embedded', path: path ?? '' };
}

/** A credential over plain HTTP, for anybody on the way to read. The driver takes one, and `tls`, from the URL too. */
function sendsInClear(
  { protocol, username, password, hostname, searchParams }: URL,
  authToken: string | null,
): boolean {
  const isSent = authToken !== null || searchParams.has('authToken') || username !== '' || password !== '';
  const isClear = protocol === 'http:' || searchParams.getAll('tls').includes('0');
  return isSent && isClear && !isLoopback(hostname.toLowerCase());
}

// Accepts file:./x, file:x, file:/x and file:///x, but no in-memory database: it would lose acknowledged writes.
function filePath(url: string): string | null {
  const path = /^file:(?:\/\/(?=\/))?([^?#]+)$/.exec(url)?.[1];
  if (path === undefined || path.startsWith('//') || path.startsWith(':memory:') || path.endsWith('/')) return null;
  try {
    return decodeURIComponent(path);
  } catch {
    return null;
  }
}
