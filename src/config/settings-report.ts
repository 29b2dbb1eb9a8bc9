// What the start says of the configuration: the variables that are set, and those without effect.

import { isWithinEdits } from '../lib/edit-distance.ts';
import type { Config } from './config.ts';
import { type Env, NAMES, VARIABLES } from './env.ts';
import { shownUrl } from './urls.ts';

/** The variables that are set, as the log may show them. */
export const settingsOf = (env: Env): Readonly<Record<string, string>> =>
  Object.fromEntries(
    NAMES.flatMap((name) => {
      const { [name]: value } = env;
      return value && !isSetByScripts(name, value) ? [[name, shownValue(name, value)]] : [];
    }),
  );

/** The scripts of package.json set it. */
const isSetByScripts = (name: string, value: string) => name === 'RUST_LOG' && value === 'off';

function shownValue(name: (typeof NAMES)[number], value: string): string {
  if (name !== 'RUST_LOG' && VARIABLES[name].shown === null) return '(not shown)';
  return value.includes('://') ? shownUrl(value) : value;
}

export interface WithoutEffect {
  readonly variable: string;
  readonly reason: string;
}

/** Of a misspelt variable only the name is shown. */
export function withoutEffect(env: Env, config: Config, runtime: 'bun' | 'deno'): WithoutEffect[] {
  const { database, authorizationServer, connect, mcpAuth, keysPage } = config;
  const reasons: { readonly [variable in keyof Env]: string | false } = {
    MCP_AUTH:
      mcpAuth === 'eager' &&
      authorizationServer === null &&
      connect === null &&
      'there is no authorization server: OAUTH_REDIRECTS, or JWT_ISSUER without JWT_SECRET',
    OAUTH_RESOURCES: connect === null && 'OAUTH_REDIRECTS is not set',
    JWT_SCOPES: (authorizationServer === null || connect !== null) && 'clients are not sent to JWT_ISSUER',
    DATABASE_AUTH_TOKEN: database.mode === 'embedded' && 'the database is a file',
    DATABASE_REPLICA_FILE: runtime === 'deno' && 'replicas need Bun',
    KEYS_PAGE_CLIENT_ID: keysPage === null && 'KEYS_PAGE is 0',
    KEYS_PAGE_SCOPE: !keysPage?.signIn && 'the page /keys has no KEYS_PAGE_CLIENT_ID',
  };
  const found = Object.entries(reasons).flatMap(([variable, reason]) =>
    reason && env[variable as keyof Env] ? [{ variable, reason }] : [],
  );
  return [...found, ...misspelt(Object.keys(env))];
}

/** One slip for every five characters of the name: `HOME` is no slip of `HOST`. */
const CHARS_PER_SLIP = 5;
const SLIPS_MAX = 2;
/** OpenSSL's, near a name of ours. */
const NO_SLIPS: readonly string[] = ['SSL_CERT_FILE'];

const misspelt = (names: readonly string[]): WithoutEffect[] =>
  names.flatMap((variable) => {
    const upper = variable.toUpperCase();
    const near = NAMES.find((known) =>
      isWithinEdits(upper, known, Math.min(SLIPS_MAX, Math.floor(known.length / CHARS_PER_SLIP))),
    );
    const isKnown = NO_SLIPS.includes(variable) || NAMES.some((known) => known === variable);
    return near === undefined || isKnown ? [] : [{ variable, reason: `did you mean ${near}?` }];
  });
