// The environment: the names of all variables, and a reader that collects every fault.

import { expected } from './expected.ts';

export const VARIABLES = [
  'NODE_ENV',
  'HOST',
  'PORT',
  'REUSE_PORT',
  'BASE_PATH',
  'PUBLIC_URL',
  'DATABASE_URL',
  'DATABASE_AUTH_TOKEN',
  'DATABASE_REPLICA_FILE',
  'REVOCATION_LAG_MAX_MS',
  'KEY_PREFIX',
  'KEY_SCOPES',
  'KEY_MAX_DAYS',
  'KEY_REVEAL',
  'JWT_SECRET',
  'JWT_SECRET_PREVIOUS',
  'JWT_JWKS_URL',
  'JWT_ISSUER',
  'JWT_AUDIENCE',
  'JWT_SCOPE_CLAIM',
  'JWT_OWNER_CLAIM',
  'ADMIN_CLAIM',
  'JWT_SCOPES',
  'OAUTH_REDIRECTS',
  'OAUTH_RESOURCES',
  'KEYS_PAGE',
  'KEYS_PAGE_CLIENT_ID',
  'KEYS_PAGE_SCOPE',
  'MCP_AUTH',
  'RATE_LIMIT_REQUESTS',
  'RATE_LIMIT_WINDOW',
  'KEY_QUOTA',
  'USER_RATE_LIMIT',
  'USAGE_DAYS',
  'ALLOWED_ORIGINS',
  'ALLOWED_HOSTS',
  'TLS_CERT_FILE',
  'TLS_KEY_FILE',
  'TRUST_PROXY',
  'EVENT_DAYS',
  'EVENT_ADDRESSES',
  'TOOLS_DIR',
  'SAMPLE_TOOL',
  'LOG_LEVEL',
  'ACCESS_LOG',
  'METRICS_TOKEN',
  'RUST_LOG', // belongs to the database driver; only checked
] as const;
type Variable = (typeof VARIABLES)[number];
/** With the settings of tools, whose names only the tools know. */
export type Env = { readonly [name in Variable | `TOOL_${string}`]?: string | undefined };

/** Every read returns null when the variable is not set, and also, after noting the fault, when its value is bad. */
export interface EnvReader {
  /** The value as it is. */
  text(name: Variable): string | null;
  /** The result of `parse`; null from `parse` is a fault. `shown` gives the value as the fault may repeat it. */
  parsed<T>(
    name: Variable,
    what: string,
    parse: (value: string) => T | null,
    shown?: (value: string) => string,
  ): T | null;
  /** A whole number in decimal digits, bounds included. */
  integer(name: Variable, min: number, max: number): number | null;
  oneOf<T extends string>(name: Variable, choices: readonly T[]): T | null;
  /** Notes a fault. Without `value`, it does not show what was found. */
  fault(name: Variable, what: string, value?: string): null;
  /** One line per fault: the name, what was expected, what was found. */
  readonly faults: readonly string[];
}

/** A reader of `env`. An empty value counts as not set. */
export function envReader(env: Env): EnvReader {
  const faults: string[] = [];
  const reader: EnvReader = {
    text: (name) => env[name] || null,
    parsed(name, what, parse, shown = (value) => value) {
      const value = reader.text(name);
      return value === null ? null : (parse(value) ?? reader.fault(name, what, shown(value)));
    },
    integer: (name, min, max) =>
      reader.parsed(name, `${min}-${max}`, (value) =>
        /^\d{1,10}$/.test(value) && Number(value) >= min && Number(value) <= max ? Number(value) : null,
      ),
    oneOf: (name, choices) =>
      reader.parsed(name, choices.join(' or '), (value) => choices.find((choice) => choice === value) ?? null),
    fault(name, what, value) {
      faults.push(expected(name, what, value));
      return null;
    },
    faults,
  };
  return reader;
}
