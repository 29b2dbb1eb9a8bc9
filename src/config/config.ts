// Configuration: environment variables in, a checked Config or the list of what is wrong out. Pure; reads nothing
// itself. The table of variables, defaults and meanings is in src/config/README.md.

import { parseDuration } from '../lib/duration.ts';
import { isKeyPrefix } from '../lib/key-prefix.ts';
import { type LimitCeilings, parseLimit, parseQuota, type Quota, REQUESTS_MAX } from '../lib/rate-limit.ts';
import { err, ok, type Result } from '../lib/result.ts';
import { isScope, splitScopes } from '../lib/scope.ts';
import { LOG_LEVELS, type LogLevel } from '../log/log.ts';
import { type ConnectConfig, connectConfig, jwtScopes } from './connect.ts';
import { type DatabaseConfig, databaseConfig, HEADER_TEXT } from './database.ts';
import { type Env, type EnvReader, envReader } from './env.ts';
import { type Environment, environment, mayMakeSecret } from './environment.ts';
import { basePath, outlinedUrl, publicUrl, webOrigin } from './urls.ts';
import { type UserTokens, userTokens } from './users.ts';

/** The address of the page where people manage their keys, below PUBLIC_URL. */
export const keysPageUrl = (publicUrl: string): string => `${publicUrl}/keys`;

/** The page as a client of the issuer: a public one, because nothing in a page is secret. */
export interface KeysPageSignIn {
  readonly issuer: string;
  readonly clientId: string;
  /** What it asks for, with spaces between. */
  readonly scope: string;
}

export interface Config extends Environment, UserTokens {
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
  readonly keyCeilings: {
    readonly scopes: readonly string[] | null;
    readonly daysMax: number | null;
    readonly limits: LimitCeilings;
  };
  /** Where a new key is shown over MCP. */
  readonly keyReveal: 'result' | 'widget';
  /** The claims of a user token that say who owns its user's keys, and (null: none) what that user may grant. */
  readonly jwtClaims: {
    readonly owner: string;
    readonly scope: string | null;
    readonly admin: { readonly name: string; readonly value: string } | null;
  };
  /** The page where people manage their keys. Null: there is none. */
  readonly keysPage: {
    /** Where its visitors sign in. Null: with a link, or a token that they paste. */
    readonly signIn: KeysPageSignIn | null;
  } | null;
  /** Where keys may be handed to, to clients that speak only OAuth. Null: there is no such way. */
  readonly connect: ConnectConfig | null;
  /** The scopes that clients are told to ask the issuer for. */
  readonly jwtScopes: readonly string[];
  /** `eager` has an effect only with an authorization server, the issuer or this server. */
  readonly mcpAuth: 'lazy' | 'eager';
  /** Of keys without one of their own. */
  readonly rateLimit: { readonly requests: number; readonly windowMs: number };
  /** As `rateLimit`; null: none. */
  readonly keyQuota: Quota | null;
  /** Of each person, for tools for users. */
  readonly userRateLimit: { readonly requests: number; readonly windowMs: number };
  /** Days for which the uses of keys are kept. */
  readonly usageDays: number;
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

/** A month: what lists and widgets show, and what a quota of a month counts. */
const USAGE_DAYS_MIN = 31;

/** More than people and their agents call, and little enough for one core to serve some of them. */
const USER_LIMIT = { requests: 3000, windowMs: 60_000 };

function userLimit(value: string): Config['userRateLimit'] | null {
  if (value === '0') return { requests: 0, windowMs: 60_000 };
  const limit = parseLimit(value);
  return limit && { requests: limit.requests, windowMs: limit.windowS * 1000 };
}

const keyPrefix = (value: string) => (isKeyPrefix(value) ? value : null);

/** Somewhat more than a year: what happens once a year is still there the next time. */
const EVENT_DAYS = 400;

/** Short tokens can be guessed: nothing counts wrong ones. */
const METRICS_TOKEN_CHARS_MIN = 16;

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
  const connect = connectConfig(read);
  const users = userTokens(
    read,
    verifiesUsers && !mayMakeSecret(runsAs) ? runsAs.environment : null,
    runsAs.production,
  );
  const rateLimit = {
    requests: integer('RATE_LIMIT_REQUESTS', 0, REQUESTS_MAX) ?? 1000,
    windowMs: parsed('RATE_LIMIT_WINDOW', 'a window like 30s, 5m, 1h or 1d', parseDuration) ?? 3_600_000,
  };
  const keyQuota = parsed('KEY_QUOTA', 'calls in a day or month, like 5000/day or 100000/month', parseQuota);
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
      limits: {
        rateLimit:
          rateLimit.requests === 0 ? null : { requests: rateLimit.requests, windowS: rateLimit.windowMs / 1000 },
        quota: keyQuota,
      },
    },
    keyReveal: oneOf('KEY_REVEAL', ['result', 'widget']) ?? 'result',
    ...users,
    jwtClaims: {
      owner: text('JWT_OWNER_CLAIM') ?? 'sub',
      scope: text('JWT_SCOPE_CLAIM'),
      admin: parsed('ADMIN_CLAIM', 'a claim and its value, like roles=keys-admin', claimAndValue),
    },
    keysPage: keysPage(read, users.jwt.kind === 'secret' ? null : users.jwtIssuer),
    connect,
    jwtScopes: jwtScopes(read),
    // Hosted clients take a 200 on `initialize` for "no sign-in needed".
    mcpAuth: oneOf('MCP_AUTH', ['lazy', 'eager']) ?? (connect === null ? 'lazy' : 'eager'),
    rateLimit,
    keyQuota,
    userRateLimit: parsed('USER_RATE_LIMIT', 'calls in a window, like 3000/1m, or 0', userLimit) ?? USER_LIMIT,
    usageDays: integer('USAGE_DAYS', USAGE_DAYS_MIN, 400) ?? USAGE_DAYS_MIN,
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

const SCOPES_EXPECTED = 'scopes with spaces between, each 1-100 printable ASCII characters without quote or backslash';

function scopeNames(value: string): readonly string[] | null {
  const names = splitScopes(value);
  return names.length > 0 && names.every(isScope) ? [...new Set(names)] : null;
}

function claimAndValue(text: string): { name: string; value: string } | null {
  const [, name, value] = /^([^=\s]+)=(\S+)$/.exec(text) ?? [];
  return name === undefined || value === undefined ? null : { name, value };
}

const listOf = (parse: (item: string) => string | null) => (value: string) => {
  const items = value.split(',').map((item) => parse(item.trim()));
  return items.every((item) => item !== null) ? items : null;
};

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

function metricsToken({ text, fault }: EnvReader): string | null {
  const token = text('METRICS_TOKEN');
  if (token !== null && (token.length < METRICS_TOKEN_CHARS_MIN || !HEADER_TEXT.test(token))) {
    const expected = `at least ${METRICS_TOKEN_CHARS_MIN} printable ASCII characters without space`;
    fault('METRICS_TOKEN', `${expected} (the value is not shown)`);
  }
  return token;
}

const hostName = (value: string) => (/^[\w.:-]+$/.test(value) ? value : null);

const bareHostName = (value: string) => (/^[\w.-]+$/.test(value) ? value.toLowerCase() : null);

function tlsFiles({ text, fault }: EnvReader): Config['tls'] {
  const [certFile, keyFile] = [text('TLS_CERT_FILE'), text('TLS_KEY_FILE')];
  if (certFile !== null && keyFile !== null) return { certFile, keyFile };
  if (certFile !== null) fault('TLS_KEY_FILE', 'a file, because TLS_CERT_FILE is set');
  if (keyFile !== null) fault('TLS_CERT_FILE', 'a file, because TLS_KEY_FILE is set');
  return null;
}
