// What the start says of the variables that are set: their values without secrets, and those that change nothing.

import { describe, expect, test } from 'bun:test';
import { contradictions, settingsOf, withoutEffect } from '../../src/config/settings-report.ts';
import { parseConfig } from '../../src/start/package/index.ts';
import type { Env } from '../support/test-app.ts';

function reported(env: Readonly<Record<string, string>>) {
  const config = parseConfig(env as Env);
  if (!config.ok) throw new Error(config.error.join('\n'));
  return withoutEffect(env as Env, config.value).map(({ variable, reason }) => `${variable}: ${reason}`);
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
});

test.each([
  ['http://keys.example', '1', true],
  ['http://keys.example', '0', false],
  ['https://keys.example', '1', false],
  ['http://127.0.0.1:8080', '1', false],
])('PUBLIC_URL=%s beside TRUST_PROXY=%s contradicts it: %p', (PUBLIC_URL, TRUST_PROXY, expected) => {
  const env = { PUBLIC_URL, TRUST_PROXY };
  const config = parseConfig(env);
  if (!config.ok) throw new Error(config.error.join('\n'));
  expect(contradictions(env, config.value).map(({ variable }) => variable)).toEqual(expected ? ['PUBLIC_URL'] : []);
});

describe('the settings', () => {
  test('are the variables that are set and known, no other', () => {
    expect(settingsOf({ PORT: '0', LOG_LEVEL: 'warn', HOST: '', SHELL: '/bin/sh' } as Env)).toEqual({
      PORT: '0',
      LOG_LEVEL: 'warn',
    });
    expect(settingsOf({})).toEqual({});
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
