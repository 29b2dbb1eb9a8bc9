// Configuration: environment variables in, a checked Config or the list of what is wrong out. Pure; reads nothing itself.
// The table of variables, defaults and meanings is in the README.

import { LOG_LEVELS, type LogLevel } from './log.ts';
import { isLoopback } from './loopback.ts';
import { err, ok, type Result } from './problem.ts';
import { parseWindow } from './window.ts';

/** Every variable there is. */
export const VARIABLES = [
  'NODE_ENV',
  'HOST',
  'PORT',
  'BASE_PATH',
  'PUBLIC_URL',
  'DATABASE_URL',
  'DATABASE_AUTH_TOKEN',
  'DATABASE_REPLICA_FILE',
  'REVOCATION_LAG_MAX_MS',
  'JWT_SECRET',
  'JWT_JWKS_URL',
  'JWT_ISSUER',
  'JWT_AUDIENCE',
  'MCP_AUTH',
  'RATE_LIMIT_REQUESTS',
  'RATE_LIMIT_WINDOW',
  'ALLOWED_ORIGINS',
  'ALLOWED_HOSTS',
  'TLS_CERT_FILE',
  'TLS_KEY_FILE',
  'TRUST_PROXY',
  'LOG_LEVEL',
  'RUST_LOG', // the database driver's own; only looked at
] as const;
type Variable = (typeof VARIABLES)[number];
export type Env = { readonly [name in Variable]?: string | undefined };

/** How user JWTs are verified: a shared secret, or the key set of an issuer. */
export type JwtConfig =
  | { readonly kind: 'secret'; readonly secret: string }
  | { readonly kind: 'dev-secret' } // made at first start, kept in a file
  | { readonly kind: 'jwks'; readonly url: URL }
  | { readonly kind: 'discovery'; readonly issuer: string }; // the issuer's metadata names the key set

export type DatabaseConfig =
  | { readonly mode: 'embedded'; readonly path: string }
  | {
      readonly mode: 'remote';
      readonly url: string;
      readonly authToken: string | null;
      readonly replicaFile: string | null;
    };

export interface Config {
  readonly production: boolean;
  readonly host: string;
  readonly port: number;
  readonly basePath: string;
  /** Without trailing slash; null: made from the address once that is known. */
  readonly publicUrl: string | null;
  readonly database: DatabaseConfig;
  readonly revocationLagMaxMs: number;
  readonly jwt: JwtConfig;
  readonly jwtIssuer: string | null;
  readonly jwtAudience: string | null;
  /** The issuer, where OAuth clients are sent; null: they are never challenged. */
  readonly authorizationServer: string | null;
  /** `eager` says something only where there is an authorization server. */
  readonly mcpAuth: 'lazy' | 'eager';
  readonly rateLimit: { readonly requests: number; readonly windowMs: number };
  /** Null: loopback origins and the public one. */
  readonly allowedOrigins: readonly string[] | null;
  /** Lower-case names without port. Null: loopback names and the public one. */
  readonly allowedHosts: readonly string[] | null;
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null;
  readonly trustProxy: boolean;
  readonly logLevel: LogLevel;
}

export const JWT_SECRET_BYTES_MIN = 32; // HS256 wants a key of the hash's size (RFC 7518 §3.2)

/** Reads every variable; on failure returns one sentence a bad one: its name, what was expected, what was found. */
export function parseConfig(env: Env): Result<Config, readonly string[]> {
  const faults: string[] = [];
  const fault: Fault = (name, expected, value) => {
    faults.push(`${name}: expected ${expected}${value === undefined ? '' : `, got ${JSON.stringify(value)}`}`);
    return null;
  };
  const text = (name: Variable): string | null => env[name] || null;
  const parsed = <T>(
    name: Variable,
    fallback: T,
    expected: string,
    parse: (value: string) => T | null,
    shown: (value: string) => string = (value) => value,
  ): T => {
    const value = text(name);
    if (value === null) return fallback;
    return parse(value) ?? fault(name, expected, shown(value)) ?? fallback;
  };
  const integer = (name: Variable, fallback: number, min: number, max: number) =>
    parsed(name, fallback, `${min}-${max}`, (value) =>
      /^\d{1,10}$/.test(value) && Number(value) >= min && Number(value) <= max ? Number(value) : null,
    );
  const oneOf = <T extends string>(name: Variable, fallback: T, choices: readonly T[]): T =>
    parsed(name, fallback, choices.join(' or '), (value) => choices.find((choice) => choice === value) ?? null);

  const production = env.NODE_ENV === 'production';
  const host = parsed('HOST', '127.0.0.1', 'an address or host name', (v) => (/^[\w.:-]+$/.test(v) ? v : null));
  const basePath = parsed('BASE_PATH', '', 'a path like /keys, without a slash at its end', (v) =>
    // A client would resolve . and .. before it sends the path (RFC 3986 §5.2.4).
    /^(\/(?!\.{1,2}(\/|$))[\w.~-]+)+$/.test(v) ? v : null,
  );
  const publicUrl = parsed<string | null>(
    'PUBLIC_URL',
    null,
    'an http or https URL without query, user or fragment',
    (v) => {
      const url = webUrl(v);
      return url && !url.search && !url.hash && !url.username && !url.password
        ? trimSlash(url.origin + url.pathname)
        : null;
    },
    shownUrl,
  );

  const tls = tlsFiles(text('TLS_CERT_FILE'), text('TLS_KEY_FILE'), fault);
  const secret = text('JWT_SECRET');
  if (secret !== null && new TextEncoder().encode(secret).length < JWT_SECRET_BYTES_MIN) {
    fault('JWT_SECRET', `at least ${JWT_SECRET_BYTES_MIN} bytes (the value is not shown)`);
  }
  const jwksUrl = parsed<URL | null>(
    'JWT_JWKS_URL',
    null,
    'an https URL (http on loopback only)',
    trustedUrl,
    shownUrl,
  );
  // Compared by its exact text later, so the text is kept and not the normalized URL (RFC 8414 §3.3).
  const issuer =
    secret === null
      ? parsed<string | null>(
          'JWT_ISSUER',
          null,
          'an https URL (http on loopback only) without query and fragment',
          (v) => (trustedUrl(v) && !/[?#]/.test(v) ? v : null),
          shownUrl,
        )
      : text('JWT_ISSUER');
  if (secret !== null && text('JWT_JWKS_URL') !== null) {
    fault(
      'JWT_JWKS_URL',
      'to be unset while JWT_SECRET is set: one of the two decides',
      shownUrl(text('JWT_JWKS_URL') ?? ''),
    );
  }
  const jwt = jwtConfig(secret, jwksUrl, issuer);
  if (production && jwt.kind === 'dev-secret' && text('JWT_JWKS_URL') === null && text('JWT_ISSUER') === null) {
    fault('JWT_SECRET', 'JWT_SECRET, JWT_JWKS_URL or JWT_ISSUER to be set in production');
  }
  const authorizationServer = secret === null ? issuer : null;

  const config: Config = {
    production,
    host,
    port: integer('PORT', 3000, 0, 65535),
    basePath,
    publicUrl,
    database: databaseConfig(text('DATABASE_URL'), text('DATABASE_AUTH_TOKEN'), text('DATABASE_REPLICA_FILE'), fault),
    revocationLagMaxMs: integer('REVOCATION_LAG_MAX_MS', 1000, 250, 60_000),
    jwt,
    jwtIssuer: issuer,
    jwtAudience: text('JWT_AUDIENCE'),
    authorizationServer,
    mcpAuth: oneOf('MCP_AUTH', 'lazy', ['lazy', 'eager'] as const),
    rateLimit: {
      requests: integer('RATE_LIMIT_REQUESTS', 1000, 0, 1_000_000_000),
      windowMs: parsed('RATE_LIMIT_WINDOW', 3_600_000, 'a window like 30s, 5m, 1h or 1d', parseWindow),
    },
    allowedOrigins: parsed<string[] | null>(
      'ALLOWED_ORIGINS',
      null,
      'origins like https://app.example, with commas between',
      (v) => listOf(v, (item) => (webUrl(item)?.origin === item.toLowerCase() ? item.toLowerCase() : null)),
    ),
    allowedHosts: parsed<string[] | null>('ALLOWED_HOSTS', null, 'host names without port, with commas between', (v) =>
      listOf(v, (item) => (/^[\w.-]+$/.test(item) ? item.toLowerCase() : null)),
    ),
    tls,
    trustProxy: oneOf('TRUST_PROXY', '0', ['0', '1'] as const) === '1',
    logLevel: oneOf('LOG_LEVEL', 'info', LOG_LEVELS),
  };
  return faults.length > 0 ? err(faults) : ok(config);
}

/** A URL as it may be shown: without user-info and query, however badly it is formed. */
export function shownUrl(url: string): string {
  // Up to the last @: a password may hold any character, ? and / included. A file has no user.
  const withoutUser = /^file:/i.test(url) ? url : url.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, '$1');
  return withoutUser.replace(/[?#].*$/s, '');
}

const trimSlash = (url: string) => url.replace(/\/+$/, '');

function webUrl(value: string): URL | null {
  const url = URL.canParse(value) ? new URL(value) : null;
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : null;
}

// Keys and metadata fetched over plain HTTP could be anybody's.
function trustedUrl(value: string): URL | null {
  const url = webUrl(value);
  return url !== null && !url.username && !url.password && (url.protocol === 'https:' || isLoopback(url.hostname))
    ? url
    : null;
}

function listOf(value: string, parse: (item: string) => string | null): string[] | null {
  const items = value.split(',').map((item) => parse(item.trim()));
  return items.every((item) => item !== null) ? items : null;
}

type Fault = (name: Variable, expected: string, value?: string) => null;

function tlsFiles(certFile: string | null, keyFile: string | null, fault: Fault): Config['tls'] {
  if (certFile !== null && keyFile !== null) return { certFile, keyFile };
  if (certFile !== null) fault('TLS_KEY_FILE', 'a file, because TLS_CERT_FILE is set');
  if (keyFile !== null) fault('TLS_CERT_FILE', 'a file, because TLS_KEY_FILE is set');
  return null;
}

function jwtConfig(secret: string | null, jwksUrl: URL | null, issuer: string | null): JwtConfig {
  if (secret !== null) return { kind: 'secret', secret };
  if (jwksUrl !== null) return { kind: 'jwks', url: jwksUrl };
  return issuer !== null ? { kind: 'discovery', issuer } : { kind: 'dev-secret' };
}

/** What may follow `Bearer ` (RFC 9110 §11.4, taken widely). */
const HEADER_TEXT = /^[\x21-\x7e]+$/;

function databaseConfig(
  value: string | null,
  authToken: string | null,
  replicaFile: string | null,
  fault: Fault,
): DatabaseConfig {
  const url = value ?? 'file:./data/keys.db';
  if (authToken !== null && !HEADER_TEXT.test(authToken)) {
    fault('DATABASE_AUTH_TOKEN', 'printable ASCII on one line (the value is not shown)');
  }
  if (/^(https?|libsql):\/\/[^/]/i.test(url) && URL.canParse(url))
    return { mode: 'remote', url, authToken, replicaFile };
  const path = filePath(url);
  if (path === null) {
    fault('DATABASE_URL', 'file:<path>, http(s)://… or libsql://…', shownUrl(url));
  } else if (replicaFile !== null) {
    fault('DATABASE_REPLICA_FILE', 'a remote DATABASE_URL beside it', replicaFile);
  }
  return { mode: 'embedded', path: path ?? '' };
}

// file:./x, file:x, file:/x, file:///x. A shared or private memory database would lose what was acknowledged.
function filePath(url: string): string | null {
  const path = /^file:(?:\/\/(?=\/))?([^?#]+)$/.exec(url)?.[1];
  if (path === undefined || path.startsWith('//') || path.startsWith(':memory:') || path.endsWith('/')) return null;
  try {
    return decodeURIComponent(path);
  } catch {
    return null;
  }
}
