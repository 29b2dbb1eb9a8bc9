// What the start says of the configuration: the variables that are set, and those that change nothing.

import { isWithinEdits } from '../lib/edit-distance.ts';
import type { Config } from './config.ts';
import { type Env, VARIABLES } from './env.ts';
import { shownUrl } from './urls.ts';

/** The variables that somebody has set, as the log may show them. */
export const settingsOf = (env: Env): Readonly<Record<string, string>> =>
  Object.fromEntries(
    VARIABLES.flatMap((name) => {
      const { [name]: value } = env;
      return value && !isSetByScripts(name, value) ? [[name, shownValue(name, value)]] : [];
    }),
  );

/** The scripts of package.json start the server with it. */
const isSetByScripts = (name: string, value: string) => name === 'RUST_LOG' && value === 'off';

function shownValue(name: string, value: string): string {
  if (/SECRET|TOKEN/.test(name)) return '(not shown)';
  return value.includes('://') ? shownUrl(value) : value;
}

export interface WithoutEffect {
  readonly variable: string;
  readonly reason: string;
}

/** Variables that are set and have no effect. Of a misspelt one only the name is shown. */
export function withoutEffect(env: Env, config: Config, runtime: 'bun' | 'deno'): WithoutEffect[] {
  const { database, authorizationServer, connect, mcpAuth } = config;
  const found: WithoutEffect[] = [];
  if (mcpAuth === 'eager' && authorizationServer === null && connect === null) {
    found.push({
      variable: 'MCP_AUTH',
      reason: 'there is no authorization server: OAUTH_REDIRECTS, or JWT_ISSUER without JWT_SECRET',
    });
  }
  if (env.OAUTH_RESOURCES && connect === null) {
    found.push({ variable: 'OAUTH_RESOURCES', reason: 'OAUTH_REDIRECTS is not set' });
  }
  if (env.JWT_SCOPES && (authorizationServer === null || connect !== null)) {
    found.push({ variable: 'JWT_SCOPES', reason: 'clients are not sent to JWT_ISSUER' });
  }
  if (env.DATABASE_AUTH_TOKEN && database.mode === 'embedded') {
    found.push({ variable: 'DATABASE_AUTH_TOKEN', reason: 'the database is a file' });
  }
  if (env.DATABASE_REPLICA_FILE && runtime === 'deno') {
    found.push({ variable: 'DATABASE_REPLICA_FILE', reason: 'replicas need Bun' });
  }
  if (env.KEYS_PAGE_CLIENT_ID && config.keysPage === null) {
    found.push({ variable: 'KEYS_PAGE_CLIENT_ID', reason: 'KEYS_PAGE is 0' });
  }
  if (env.KEYS_PAGE_SCOPE && !config.keysPage?.signIn) {
    found.push({ variable: 'KEYS_PAGE_SCOPE', reason: 'the page /keys has no KEYS_PAGE_CLIENT_ID' });
  }
  return [...found, ...misspelt(Object.keys(env))];
}

/** A slip for every five characters of the name: `HOME` is not a slip of `HOST`. */
const CHARS_PER_SLIP = 5;
const SLIPS_MAX = 2;
/** Near a name of ours, and somebody else's: OpenSSL's. */
const NO_SLIPS: readonly string[] = ['SSL_CERT_FILE'];

const misspelt = (names: readonly string[]): WithoutEffect[] =>
  names.flatMap((variable) => {
    const upper = variable.toUpperCase();
    const near = VARIABLES.find((known) =>
      isWithinEdits(upper, known, Math.min(SLIPS_MAX, Math.floor(known.length / CHARS_PER_SLIP))),
    );
    const isKnown = NO_SLIPS.includes(variable) || VARIABLES.some((known) => known === variable);
    return near === undefined || isKnown ? [] : [{ variable, reason: `did you mean ${near}?` }];
  });
