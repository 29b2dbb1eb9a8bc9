// What the start says of the variables that are set: their values without secrets, and those that change nothing.

import { describe, expect, test } from 'bun:test';
import { parseConfig } from '../../src/config/config.ts';
import type { Env } from '../../src/config/env.ts';
import { settingsOf, withoutEffect } from '../../src/config/settings-report.ts';
import { labelled } from '../support/labels.ts';

function reported(env: Readonly<Record<string, string>>, runtime: 'bun' | 'deno' = 'bun') {
  const config = parseConfig(env as Env);
  if (!config.ok) throw new Error(config.error.join('\n'));
  return withoutEffect(env as Env, config.value, runtime).map(({ variable, reason }) => `${variable}: ${reason}`);
}

const ISSUER = { JWT_ISSUER: 'https://id.example' };
const SECRET = { JWT_SECRET: 'x'.repeat(32) };
const REPLICA = { DATABASE_URL: 'http://127.0.0.1:9', DATABASE_REPLICA_FILE: './replica.db' };
const NO_ISSUER = 'MCP_AUTH: there is no authorization server: OAUTH_REDIRECTS, or JWT_ISSUER without JWT_SECRET';

describe('a variable without effect is named', () => {
  test.each([
    [{ MCP_AUTH: 'eager' }, [NO_ISSUER]],
    [{ MCP_AUTH: 'eager', ...SECRET, ...ISSUER }, [NO_ISSUER]],
    [{ MCP_AUTH: 'eager', JWT_JWKS_URL: 'https://id.example/jwks' }, [NO_ISSUER]],
    [{ MCP_AUTH: 'eager', ...ISSUER }, []],
    [{ MCP_AUTH: 'lazy' }, []],
    [{ DATABASE_AUTH_TOKEN: 'x' }, ['DATABASE_AUTH_TOKEN: the database is a file']],
    [{ DATABASE_AUTH_TOKEN: 'x', DATABASE_URL: 'https://db.example' }, []],
    [{ KEYS_PAGE: '0', KEYS_PAGE_CLIENT_ID: 'page', ...ISSUER }, ['KEYS_PAGE_CLIENT_ID: KEYS_PAGE is 0']],
    [{ KEYS_PAGE_SCOPE: 'openid' }, ['KEYS_PAGE_SCOPE: the page /keys has no KEYS_PAGE_CLIENT_ID']],
    [{ KEYS_PAGE_SCOPE: 'openid', KEYS_PAGE_CLIENT_ID: 'page', ...ISSUER }, []],
    [REPLICA, []],
    [{}, []],
  ])('%j', (env, named) => {
    expect(reported(env)).toEqual(named);
  });

  test('on Deno a replica', () => {
    expect(reported(REPLICA, 'deno')).toEqual(['DATABASE_REPLICA_FILE: replicas need Bun']);
  });
});

describe('a name near a known one', () => {
  test.each([
    ['RATE_LIMIT_REQUEST', 'RATE_LIMIT_REQUESTS'],
    ['RATE_LIMITS_REQUEST', 'RATE_LIMIT_REQUESTS'],
    ['ALLOWED_HOST', 'ALLOWED_HOSTS'],
    ['ALOWED_ORIGIN', 'ALLOWED_ORIGINS'],
    ['DATABASE_URI', 'DATABASE_URL'],
    ['DATABASEURL', 'DATABASE_URL'],
    ['TRSUT_PROXY', 'TRUST_PROXY'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['NODE_EVN', 'NODE_ENV'],
    ['jwt_secret', 'JWT_SECRET'],
    ['Port', 'PORT'],
  ])('%s: did you mean %s?', (name, known) => {
    expect(reported({ [name]: 'hunter2' })).toEqual([`${name}: did you mean ${known}?`]);
  });

  test.each(
    labelled([
      ...[
        'HOME',
        'SSL_CERT_FILE',
        'HOSTNAME',
        'POST',
        'PORTS',
        'SHOST',
        'PATH',
        'USER',
        'LANG',
        'BASE',
        'NODE_OPTIONS',
        'NODE_PATH',
        'TOOL_URL',
      ],
      ...['DATABASE_USER', 'RATE_LIMIT', 'JWT', '', '__proto__', 'RUST_LOG', 'x'.repeat(100_000)],
    ]),
  )('%s is no slip', (_label, name) => {
    expect(reported({ [name]: 'off' })).toEqual([]);
  });
});

describe('the settings', () => {
  test('are the variables that are set and known, no other', () => {
    expect(settingsOf({ PORT: '0', LOG_LEVEL: 'warn', HOST: '', SHELL: '/bin/sh' } as Env)).toEqual({
      PORT: '0',
      LOG_LEVEL: 'warn',
    });
    expect(settingsOf({})).toEqual({});
  });

  test('are what a person has set, not what the scripts set', () => {
    expect(settingsOf({ RUST_LOG: 'off' })).toEqual({});
    expect(settingsOf({ RUST_LOG: 'debug' })).toEqual({ RUST_LOG: 'debug' });
  });

  test('hold no secret', () => {
    const settings = settingsOf({
      JWT_SECRET: 'hunter2',
      JWT_SECRET_PREVIOUS: 'hunter2',
      METRICS_TOKEN: 'hunter2',
      DATABASE_AUTH_TOKEN: 'hunter2',
      DATABASE_URL: 'libsql://user:hunter2@db.example/a?authToken=hunter2',
      JWT_JWKS_URL: 'https://id.example/keys?code=hunter2',
      TLS_KEY_FILE: './key@home.pem',
    });
    expect(settings).toEqual({
      JWT_SECRET: '(not shown)',
      JWT_SECRET_PREVIOUS: '(not shown)',
      METRICS_TOKEN: '(not shown)',
      DATABASE_AUTH_TOKEN: '(not shown)',
      DATABASE_URL: 'libsql://db.example/a',
      JWT_JWKS_URL: 'https://id.example/keys',
      TLS_KEY_FILE: './key@home.pem',
    });
  });
});
