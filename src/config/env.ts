// Defines every environment variable in one table: its parser, what its value must be, and its default. config.ts checks
// combinations; README.md explains them to people.

import {
  KEYS_MAX_DEFAULT,
  OWNER_KEYS_MAX,
  parseLimit,
  parseQuota,
  parseSharedLimit,
  REQUESTS_MAX,
} from '../ground/rate-limit.ts';
import { parseDuration } from '../ground/runtime.ts';
import { listeningOrigin } from '../ground/server-address.ts';
import { expected, isScope, isSubject, KEY_PREFIX_PATTERN, REPLACEMENT, splitScopes } from '../ground/text.ts';
import { anyOrigin, outlinedUrl, publicUrl, shownUrl, signInUrl, trustedUrl } from '../ground/urls.ts';
import { JWT_SECRET_BYTES_MIN } from '../users/verification-keys.ts';
import { LOG_LEVELS } from '../watch/log.ts';
import { clientRulesOf } from './client-ids.ts';
import { databasePlace, replicaPath } from './database.ts';
import { redirectsOf, resourcesOf } from './redirects.ts';

interface Variable<T> {
  /** What a value must be, for the error message. */
  readonly what: string;
  /** Returns the parsed value, or null for a bad one. */
  readonly parse: (value: string) => T | null;
  readonly unset: T;
  /** Returns a bad value as the message may show it. Null: it is a secret. */
  readonly shown: ((value: string) => string) | null;
  /** Common mistakes that are checked before `parse`. */
  readonly slips: readonly Slip[];
}

const asIs = (value: string) => value;

/** Shows a value as it is, but a URL, which belongs elsewhere, without its user-info and query. */
const plain = (value: string) => (value.includes('://') ? outlinedUrl(value) : value);

const of = <T, Unset>(
  what: string,
  parse: (value: string) => T | null,
  unset: Unset,
  shown: Variable<T>['shown'] = plain,
  ...slips: readonly Slip[]
): Variable<T | Unset> => ({ what, parse, unset, shown, slips });

/** Accepts text without a leading or trailing space, which is never meant and would match nothing. */
const text = <Unset>(unset: Unset, ...slips: readonly Slip[]) =>
  of('text without space at its ends', (value) => (value.trim() === value ? value : null), unset, plain, ...slips);

/** A value that looks valid but never works. */
interface Slip {
  isIn(value: string): boolean;
  /** What it must be instead, for the error message. */
  readonly what: string;
}

/** Replacement characters would make different secrets equal. */
const NOT_UTF8: Slip = { isIn: (value) => value.includes(REPLACEMENT), what: 'text in UTF-8' };
const UNEXPANDED: Slip = {
  isIn: (value) => /^(?:file:(?:\/{2,3})?)?\s*(?:["'`~]|%7e|\$[\w{(]|%24|%[a-z_]{3,}%)/i.test(value),
  what: 'a path without ~, $NAME or quotes at its start: nobody expands them',
};
/** A comma, or a semicolon after an item. */
const COMMA: Slip = {
  isIn: (value) => /,|;(\w+:\/\/|\s|$)/.test(value),
  what: 'a list with spaces between, not commas',
};
/** Another URL behind the first. */
const SEVERAL: Slip = {
  isIn: (value) => /[,;]$|[,; ]\s*\w+:\/\//.test(value),
  what: 'one value: no list is read here',
};
/** A list where one claim is named. */
const SEVERAL_NAMES: Slip = {
  isIn: (value) => /[,;*]|\S\s+\S/.test(value.split('=', 1)[0] ?? ''),
  what: 'the name of one claim',
};
const STAR: Slip = { isIn: (value) => value.includes('*'), what: 'no *: no pattern is read here' };

const path = of('text', asIs, null, plain, UNEXPANDED);

const matching = (pattern: RegExp) => (value: string) => (pattern.test(value) ? value : null);

const integer = <Unset>(min: number, max: number, unset: Unset) =>
  of(
    `${min}-${max}`,
    (value) => (/^\d{1,10}$/.test(value) && Number(value) >= min && Number(value) <= max ? Number(value) : null),
    unset,
  );

const oneOf = <T extends string, Unset extends T | null>(choices: readonly T[], unset: Unset) =>
  of(choices.join(' or '), (value) => choices.find((choice) => choice === value) ?? null, unset);

const flag = (unset: boolean) =>
  of('0 or 1', (value) => (value === '0' || value === '1' ? value === '1' : null), unset);

const secret = (what: string, parse: (value: string) => string | null) =>
  of(`${what} (the value is not shown)`, parse, null, null);

const listOf = (parse: (item: string) => string | null) => (value: string) => {
  const items = value.split(',').map((item) => parse(item.trim()));
  return items.every((item) => item !== null) ? items : null;
};

const outlinedUrls = (value: string) => splitScopes(value).map(outlinedUrl).join(' ');

const bareHostName = (value: string) => matching(/^\w[\w.-]*$/)(value.toLowerCase());

function scopeNames(value: string): readonly string[] | null {
  const names = splitScopes(value);
  return names.length > 0 && names.every(isScope) ? [...new Set(names)] : null;
}

/** A refresh token outlives a sign-out at the issuer, in clients that lose or never use it. */
const NOT_ASKED_FOR = 'offline_access';

const scopesToAskFor = (value: string) => (splitScopes(value).includes(NOT_ASKED_FOR) ? null : scopeNames(value));

function claimAndValue(value: string): { readonly name: string; readonly value: string } | null {
  const [, name, wanted] = /^([^=\s]+)=(\S+)$/.exec(value) ?? [];
  return name === undefined || wanted === undefined ? null : { name, value: wanted };
}

const userLimit = (value: string) => (value === '0' ? { requests: 0, windowS: 60 } : parseLimit(value));

const jwtSecret = secret(`at least ${JWT_SECRET_BYTES_MIN} bytes`, (value) =>
  new TextEncoder().encode(value).length < JWT_SECRET_BYTES_MIN ? null : value,
);

const SCOPES = 'scopes with spaces between, each 1-100 printable ASCII characters without quote or backslash';

/** Accepts what can be part of the server's own URL. */
const listeningHost = (host: string) =>
  /^[\w.:-]+$/.test(host) && URL.canParse(listeningOrigin({ host, tls: null }, 0)) ? host : null;

export const VARIABLES = {
  NODE_ENV: of('text', asIs, 'development'),
  HOST: of('an address or host name', listeningHost, '127.0.0.1'),
  PORT: integer(0, 65535, 3000),
  REUSE_PORT: flag(false),
  // Clients resolve . and .. before they send the path (RFC 3986 §5.2.4).
  BASE_PATH: of('a path like /keys, without a slash at its end', matching(/^(\/(?!\.{1,2}(\/|$))[\w.~-]+)+$/), ''),
  PUBLIC_URL: of('an http or https URL without query, user or fragment', publicUrl, null, outlinedUrl, STAR, SEVERAL),
  DATABASE_URL: of(
    'file:<path of a file> without a query, http(s)://… or libsql://…',
    databasePlace,
    { mode: 'embedded', path: './data/keys.db' } as const,
    shownUrl,
    UNEXPANDED,
  ),
  // What may follow `Bearer `: a little more than RFC 9110 §11.4 allows.
  DATABASE_AUTH_TOKEN: secret('printable ASCII on one line', matching(/^[\x21-\x7e]+$/)),
  DATABASE_REPLICA_FILE: of('the path of a file, not a URL', replicaPath, null, shownUrl, UNEXPANDED),
  REVOCATION_LAG_MAX_MS: integer(250, 60_000, 1000),
  KEY_CACHE_MB: integer(8, 4096, 64),
  KEY_PREFIX: of('2-12 of a-z and 0-9', matching(new RegExp(`^${KEY_PREFIX_PATTERN}$`)), 'sk'),
  KEY_SCOPES: of(SCOPES, scopeNames, null, plain, COMMA),
  KEY_MAX_DAYS: integer(1, 36_500, null),
  KEY_REVEAL: oneOf(['result', 'widget'], 'result'),
  JWT_SECRET: jwtSecret,
  JWT_SECRET_PREVIOUS: jwtSecret,
  JWT_JWKS_URL: of('an https URL (http on loopback only)', trustedUrl, null, outlinedUrl, STAR, SEVERAL),
  JWT_ISSUER: text(null, STAR, SEVERAL),
  JWT_AUDIENCE: text(null, STAR, SEVERAL),
  JWT_SCOPE_CLAIM: text(null, SEVERAL_NAMES),
  JWT_OWNER_CLAIM: text('sub', SEVERAL_NAMES),
  ADMIN_CLAIM: of('a claim and its value, like roles=keys-admin', claimAndValue, null, plain, STAR, SEVERAL_NAMES),
  JWT_SCOPES: of(`scopes with spaces between, without ${NOT_ASKED_FOR}`, scopesToAskFor, ['openid'], plain, COMMA),
  OAUTH_REDIRECTS: of(
    'https URIs (exact, or with /* at the end), exact URIs of an app’s own scheme, or the word loopback, with spaces between',
    redirectsOf,
    null,
    outlinedUrls,
    COMMA,
  ),
  OAUTH_CLIENTS: of(
    'https URLs of documents (exact, or with /* at the end), or the word known, with spaces between',
    clientRulesOf,
    null,
    outlinedUrls,
    COMMA,
  ),
  OAUTH_RESOURCES: of(
    'https URLs (http on loopback only) without query and fragment, with spaces between',
    resourcesOf,
    [],
    outlinedUrls,
    STAR,
    COMMA,
  ),
  OAUTH_DEVICE: flag(false),
  KEYS_PAGE: flag(true),
  KEYS_PAGE_SIGN_IN: of(
    'an https URL (http on loopback only) without user, fragment, and return or state in its query',
    signInUrl,
    null,
    outlinedUrl,
    STAR,
    SEVERAL,
  ),
  KEYS_PAGE_CLIENT_ID: text(null),
  KEYS_PAGE_SCOPE: of(SCOPES, scopeNames, ['openid'], plain, COMMA),
  MCP_AUTH: oneOf(['lazy', 'eager'], null),
  TOOLS_LIST: oneOf(['callable', 'all'], 'callable'),
  RATE_LIMIT_REQUESTS: integer(0, REQUESTS_MAX, 1000),
  RATE_LIMIT_WINDOW: of('a window like 30s, 5m, 1h or 1d', parseDuration, 3_600_000),
  KEY_QUOTA: of('calls in a day or month, like 5000/day or 100000/month', parseQuota, null),
  OWNER_RATE_LIMIT: of('calls in a window of 10s to 366 days, like 1000/1h', parseSharedLimit, null),
  OWNER_QUOTA: of('calls in a day or month, like 5000/day or 100000/month', parseQuota, null),
  OWNER_KEYS: integer(0, OWNER_KEYS_MAX, KEYS_MAX_DEFAULT),
  // More than people and their agents call, and few enough for one core to serve several of them.
  USER_RATE_LIMIT: of('calls in a window of at most 366 days, like 3000/1m, or 0', userLimit, {
    requests: 3000,
    windowS: 60,
  }),
  // At least two months, so that a bill for the month before can be made.
  USAGE_DAYS: integer(62, 400, 62),
  ALLOWED_ORIGINS: of('origins like https://app.example, with commas between', listOf(anyOrigin), null, outlinedUrl),
  ALLOWED_HOSTS: of('host names without port, with commas between', listOf(bareHostName), null, outlinedUrl),
  TLS_CERT_FILE: path,
  TLS_KEY_FILE: path,
  TRUST_PROXY: integer(0, 32, 0),
  // Somewhat more than a year, so that yearly events are still there the next time.
  EVENT_DAYS: integer(1, 36_500, 400),
  EVENT_ADDRESSES: flag(true),
  TOOLS_DIR: path,
  SAMPLE_TOOL: flag(true),
  LOG_LEVEL: oneOf(LOG_LEVELS, 'info'),
  ACCESS_LOG: flag(false),
  KEYS_ACTOR: of('1 to 255 characters without controls', (value) => (isSubject(value) ? value : null), null),
  // Nothing limits attempts, so short tokens could be guessed.
  METRICS_TOKEN: secret('at least 16 printable ASCII characters without space', matching(/^[\x21-\x7e]{16,}$/)),
} as const;

export const NAMES = Object.keys(VARIABLES) as (keyof typeof VARIABLES)[];

/** The variables, those of OpenTelemetry (doors/traces/), and the settings of tools, whose names only the tools know. */
export type Env = {
  readonly [name in keyof typeof VARIABLES | `OTEL_${string}` | `TOOL_${string}`]?: string | undefined;
};

export type Values = { readonly [name in keyof typeof VARIABLES]: (typeof VARIABLES)[name]['unset'] };

/** Returns all values, and by variable an error message for each bad one. Bad and empty values count as unset. */
export function valuesOf(env: Env): { readonly values: Values; readonly faults: Map<string, string> } {
  const faults = new Map<string, string>();
  const values = Object.entries<Variable<unknown>>(VARIABLES).map(([name, { what, parse, unset, shown, slips }]) => {
    const value = env[name as keyof Env];
    const slipped = value ? [NOT_UTF8, ...slips].find(({ isIn }) => isIn(value)) : undefined;
    const parsed = value && !slipped ? parse(value) : unset;
    if (value && (slipped || parsed === null)) faults.set(name, expected(name, slipped?.what ?? what, shown?.(value)));
    return [name, parsed ?? unset];
  });
  return { values: Object.fromEntries(values) as Values, faults };
}
