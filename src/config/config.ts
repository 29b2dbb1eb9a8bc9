// Parses environment variables to a validated Config, or lists all that is wrong. Pure. env.ts validates each variable
// by itself; this file checks NODE_ENV, and combinations.

import { dirname } from 'node:path';
import { limitOf, type RateLimit } from '../ground/rate-limit.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { expected, isWithinEdits, type NoteFault } from '../ground/text.ts';
import { isIssuer, outlinedUrl, shownUrl } from '../ground/urls.ts';
import type { JwtConfig } from '../users/index.ts';
import { type ConnectConfig, namesThisMachine } from './client-ids.ts';
import { databaseConfig } from './database.ts';
import { type Env, type Values, valuesOf } from './env.ts';

export type Config = ReturnType<typeof configOf>;

/**
 * Returns the configuration, or one line for each bad variable. Commands that neither sign nor verify user tokens don't
 * require a secret for them, which an operator's shell may lack.
 */
export function parseConfig(env: Env, { verifiesUsers = true } = {}): Result<Config, readonly string[]> {
  const { values, faults } = valuesOf(env);
  const among: Among =
    (...names) =>
    (name, ...found) => {
      if (![name, ...names].some((one) => faults.has(one))) faults.set(name, expected(name, ...found));
    };
  const config = configOf(values, verifiesUsers, among);
  return faults.size > 0 ? err([...faults.values()]) : ok(config);
}

/** Returns how to note a fault of several variables together; none is noted if one of them is already bad by itself. */
type Among = (...names: readonly (keyof Values)[]) => NoteFault;

const JWT = ['JWT_SECRET', 'JWT_SECRET_PREVIOUS', 'JWT_JWKS_URL', 'JWT_ISSUER'] as const;

/** Returns the settings of Connect. Production refuses a document on this machine: any local server would get keys. */
function connectOf(values: Values, production: boolean, note: NoteFault): ConnectConfig | null {
  const { OAUTH_REDIRECTS: redirects, OAUTH_CLIENTS: clients } = values;
  if (production && clients !== null && namesThisMachine(clients)) {
    note('OAUTH_CLIENTS', 'in production URLs of other machines', 'one of loopback');
  }
  return redirects === null && clients === null ? null : { redirects, clients };
}

function configOf(values: Values, verifiesUsers: boolean, among: Among) {
  const runsAs = environment(values.NODE_ENV, among());
  const { production } = runsAs;
  const demandedIn = verifiesUsers && !WITH_MADE_UP_SECRET.has(runsAs.environment) ? runsAs.environment : null;
  const users = userTokens(values, { demandedIn, production }, among(...JWT));
  const { DATABASE_AUTH_TOKEN: authToken, DATABASE_REPLICA_FILE: replicaFile } = values;
  const connect = connectOf(values, production, among());
  const rateLimit = unlessOff({ requests: values.RATE_LIMIT_REQUESTS, windowS: values.RATE_LIMIT_WINDOW / 1000 });
  const keyDefaults = { rateLimit, quota: values.KEY_QUOTA };
  if (production && values.PUBLIC_URL === null) demandPublicUrl(values, among());
  // With port 0 the system would choose a different one for each process.
  if (values.REUSE_PORT && values.PORT === 0) among()('PORT', '1-65535, because REUSE_PORT is set', '0');
  return {
    ...runsAs,
    ...users,
    host: values.HOST,
    port: values.PORT,
    reusePort: values.REUSE_PORT,
    basePath: values.BASE_PATH,
    /** The public URL, without a trailing slash. Null: it is derived from the listening address. */
    publicUrl: values.PUBLIC_URL,
    database: databaseConfig(values.DATABASE_URL, { authToken, replicaFile }, production, among('DATABASE_URL')),
    revocationLagMaxMs: values.REVOCATION_LAG_MAX_MS,
    keyCacheBytes: values.KEY_CACHE_MB * 1024 * 1024,
    keyPrefix: values.KEY_PREFIX,
    /** The most that any key may be given; null: no ceiling. */
    keyCeilings: { scopes: values.KEY_SCOPES, daysMax: values.KEY_MAX_DAYS, limits: keyDefaults },
    /** Where a new key is shown over MCP. */
    keyReveal: values.KEY_REVEAL,
    jwtIssuer: values.JWT_ISSUER,
    jwtAudience: values.JWT_AUDIENCE,
    /** The claims with the keys' owner, with the scopes a user may grant (null: any), and that marks admins. */
    jwtClaims: { owner: values.JWT_OWNER_CLAIM, scope: values.JWT_SCOPE_CLAIM, admin: values.ADMIN_CLAIM },
    /** The page where people manage their keys. Null: there is none. */
    keysPage: keysPage(values, users.authorizationServer, among(...JWT)),
    /** Where OAuth clients may be handed keys. Null: nowhere. */
    connect,
    /** Whether programs without a browser may ask for a key. */
    device: deviceOf(values, among('KEYS_PAGE')),
    /** URLs of other MCP servers that take this server's keys, without a trailing slash. */
    resources: values.OAUTH_RESOURCES,
    /** The scopes that clients should request from the issuer. */
    jwtScopes: values.JWT_SCOPES,
    /** What lists of tools and prompts show: what the caller can call, or everything. */
    toolsList: values.TOOLS_LIST,
    /**
     * `eager` only has an effect with an authorization server (the issuer, or this server). It is the default where this
     * server hands out keys, because hosted clients read a 200 on `initialize` as "no sign-in needed".
     */
    mcpAuth: values.MCP_AUTH ?? (connect === null ? 'lazy' : 'eager'),
    /** The limit and quota of keys without their own. Null: none. */
    keyDefaults,
    /** What counts for all keys of an owner together, each for owners without their own. */
    ownerDefaults: { rateLimit: values.OWNER_RATE_LIMIT, quota: values.OWNER_QUOTA, keysMax: values.OWNER_KEYS },
    /** Each person's limit, for tools that take a user token. Null: none. */
    userRateLimit: unlessOff(values.USER_RATE_LIMIT),
    usageDays: values.USAGE_DAYS,
    /** The allowed origins. Null: those of loopback names, and the public URL's. */
    allowedOrigins: values.ALLOWED_ORIGINS,
    /** Lower-case names without port. Null: loopback names and the public one. */
    allowedHosts: values.ALLOWED_HOSTS,
    tls: tlsFiles(values, among()),
    trustProxy: values.TRUST_PROXY,
    eventDays: values.EVENT_DAYS,
    eventAddresses: values.EVENT_ADDRESSES,
    /** The operator's folder of tools. Null: ./tools, if it exists. */
    toolsDir: values.TOOLS_DIR,
    sampleTool: values.SAMPLE_TOOL,
    logLevel: values.LOG_LEVEL,
    accessLog: values.ACCESS_LOG,
    /** The token that reads the metrics. Null: there are no metrics. */
    metricsToken: values.METRICS_TOKEN,
  } as const;
}

/** Returns the one object of a limit; null for one of 0 requests, which turns it off. */
const unlessOff = ({ requests, windowS }: RateLimit): RateLimit | null =>
  requests === 0 ? null : limitOf(requests, windowS);

/** Notes that PUBLIC_URL is missing if a setting sends clients to this server's address. */
function demandPublicUrl(values: Values, fault: NoteFault): void {
  const senders = ['OAUTH_REDIRECTS', 'OAUTH_CLIENTS', 'OAUTH_DEVICE', 'KEYS_PAGE_SIGN_IN'] as const;
  const set = senders.filter((name) => values[name]);
  if (set.length === 0) return;
  fault('PUBLIC_URL', `the URL that clients see, because ${set.join(' and ')} would send them to a local address`);
}

function deviceOf({ OAUTH_DEVICE, KEYS_PAGE }: Values, fault: NoteFault): boolean {
  if (OAUTH_DEVICE && !KEYS_PAGE) fault('OAUTH_DEVICE', 'the page where people decide, so no KEYS_PAGE=0', '1');
  return OAUTH_DEVICE;
}

function keysPage(values: Values, issuer: string | null, fault: NoteFault) {
  const clientId = values.KEYS_PAGE_CLIENT_ID;
  if (clientId !== null && issuer === null) {
    fault('KEYS_PAGE_CLIENT_ID', 'JWT_ISSUER beside it, and no JWT_SECRET', clientId);
  }
  const app = values.KEYS_PAGE_SIGN_IN;
  if (clientId !== null && app !== null) {
    fault('KEYS_PAGE_CLIENT_ID', 'to be unset beside KEYS_PAGE_SIGN_IN: people sign in at one place', clientId);
  }
  if (!values.KEYS_PAGE) return null;
  const scope = values.KEYS_PAGE_SCOPE.join(' ');
  // `app`: the app's own sign-in, which sends people back with a user token. `signIn`: the issuer's, as a public client,
  // since a page can keep no secret. With neither, people use a link or paste a token.
  const signIn = clientId === null || issuer === null ? null : { issuer, clientId, scope };
  return { signIn, app } as const;
}

function tlsFiles({ TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }: Values, fault: NoteFault) {
  if (certFile !== null && keyFile !== null) return { certFile, keyFile } as const;
  if (certFile !== null) fault('TLS_KEY_FILE', 'a file, because TLS_CERT_FILE is set');
  if (keyFile !== null) fault('TLS_CERT_FILE', 'a file, because TLS_KEY_FILE is set');
  return null;
}

// NODE_ENV. Only `production` turns on the production rules, so a likely misspelling of it must not start.

const PRODUCTION = 'production';
/** Besides its beginnings `pro`, `prod`, `product`. Two letters may be anything: `pr` is a pull request. */
const SHORT_FOR_PRODUCTION = new Set(['prd', 'live']);
const BEGINNING_CHARS_MIN = 3;
const SLIPS_MAX = 2;
const NAME = /^[\w.-]{1,64}$/;
/** Other environments may hold real keys, so they must configure how users sign in. */
const WITH_MADE_UP_SECRET = new Set(['development', 'test']);

function environment(name: string, fault: NoteFault) {
  if (name !== PRODUCTION && meansProduction(name)) {
    fault('NODE_ENV', `"${PRODUCTION}", or a name unlike it (did you mean "${PRODUCTION}"?)`, name);
    return DEVELOPMENT;
  }
  if (!NAME.test(name)) {
    fault('NODE_ENV', 'a name of up to 64 letters, digits and . _ -', name);
    return DEVELOPMENT;
  }
  return { environment: name, production: name === PRODUCTION };
}

/** Replaces an invalid environment, which stops the start anyway, so that it causes no further messages. */
const DEVELOPMENT = { environment: 'development', production: false };

function meansProduction(name: string): boolean {
  const letters = name.toLowerCase().replace(/[^a-z]/g, '');
  const isBeginning = letters.length >= BEGINNING_CHARS_MIN && PRODUCTION.startsWith(letters);
  return isBeginning || SHORT_FOR_PRODUCTION.has(letters) || isWithinEdits(letters, PRODUCTION, SLIPS_MAX);
}

// Decides who signs user tokens, from the configured secret, key set or issuer, and what the tokens must have.

/** Matches what examples have in place of a secret. */
const PLACEHOLDER = /change[-_ ]?(me|this)|^your[-_ ]|replace[-_ ]?(me|this)|placeholder/i;

/**
 * Returns how user tokens are verified, and the issuer to which OAuth clients are sent (null: none). `demandedIn`: the
 * environment, if it must configure that. In `production` no secret may be an example's.
 */
function userTokens(
  values: Values,
  { demandedIn, production }: { readonly demandedIn: string | null; readonly production: boolean },
  fault: NoteFault,
) {
  const { JWT_SECRET: secret, JWT_SECRET_PREVIOUS: previous, JWT_JWKS_URL: jwksUrl, JWT_ISSUER: issuer } = values;
  if (secret !== null) {
    for (const name of ['JWT_SECRET', 'JWT_SECRET_PREVIOUS'] as const) {
      if (production && PLACEHOLDER.test(values[name] ?? '')) {
        fault(name, 'a secret that nobody can guess, and it reads like an example (`openssl rand -hex 32` makes one)');
      }
    }
    if (jwksUrl !== null) {
      fault('JWT_JWKS_URL', 'to be unset while JWT_SECRET is set: one of the two decides', shownUrl(jwksUrl.href));
    }
    const jwt: JwtConfig = { kind: 'secret', secret, previous };
    return { jwt, authorizationServer: null };
  }
  if (previous !== null) fault('JWT_SECRET_PREVIOUS', 'to be unset without JWT_SECRET (the value is not shown)');
  if (issuer !== null && !isIssuer(issuer)) {
    fault('JWT_ISSUER', 'an https URL (http on loopback only) without query and fragment', outlinedUrl(issuer));
  }
  if (demandedIn !== null && jwksUrl === null && issuer === null) {
    fault('JWT_SECRET', `JWT_SECRET, JWT_JWKS_URL or JWT_ISSUER to be set in ${demandedIn}`);
  }
  return { jwt: issuerKeys(jwksUrl, issuer, values.DATABASE_URL), authorizationServer: issuer };
}

function issuerKeys(jwksUrl: URL | null, issuer: string | null, database: Values['DATABASE_URL']): JwtConfig {
  if (jwksUrl !== null) return { kind: 'jwks', url: jwksUrl };
  if (issuer !== null) return { kind: 'discovery', issuer };
  return { kind: 'dev-secret', folder: database.mode === 'embedded' ? dirname(database.path) : './data' };
}
