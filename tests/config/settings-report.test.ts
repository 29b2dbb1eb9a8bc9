// What the start says of the variables that are set: their values without secrets, and those that change nothing.

import { describe, expect, test } from 'bun:test';
import { NAMES } from '../../src/config/env.ts';
import { contradictions, misspelt, settingsOf, withoutEffect } from '../../src/config/settings-report.ts';
import { parseConfig } from '../../src/start/package/index.ts';
import type { Env } from '../support/test-app.ts';

function configOf(env: Env) {
  const config = parseConfig(env);
  if (!config.ok) throw new Error(config.error.join('\n'));
  return config.value;
}

const reported = (env: Env) =>
  withoutEffect(env, configOf(env)).map(({ variable, reason }) => `${variable}: ${reason}`);
const doubted = (env: Env) => contradictions(env, configOf(env)).map(({ variable }) => variable);

const ISSUER = { JWT_ISSUER: 'https://id.example' };
const SECRET = { JWT_SECRET: 'x'.repeat(32) };
const REPLICA = { DATABASE_URL: 'http://127.0.0.1:9', DATABASE_REPLICA_FILE: './replica.db' };
const NO_ISSUER =
  'MCP_AUTH: there is no authorization server: OAUTH_REDIRECTS, OAUTH_CLIENTS, or JWT_ISSUER without JWT_SECRET';

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
    [{ KEYS_PAGE: '0', KEYS_PAGE_SCOPE: 'openid' }, ['KEYS_PAGE_SCOPE: KEYS_PAGE is 0']],
    [{ RATE_LIMIT_REQUESTS: '0', RATE_LIMIT_WINDOW: '1m' }, ['RATE_LIMIT_WINDOW: RATE_LIMIT_REQUESTS is 0']],
    [{ RATE_LIMIT_WINDOW: '1m' }, []],
    [{ OAUTH_RESOURCES: 'https://mcp.example' }, []], // users may bind keys to it
    [REPLICA, []],
    [{}, []],
  ])('%j', (env, named) => {
    expect(reported(env as Env)).toEqual(named);
  });
});

test.each([
  ['http://keys.example', '1', true],
  ['http://keys.example', '0', false],
  ['https://keys.example', '1', false],
  ['http://127.0.0.1:8080', '1', false],
])('PUBLIC_URL=%s beside TRUST_PROXY=%s contradicts it: %p', (PUBLIC_URL, TRUST_PROXY, expected) => {
  expect(doubted({ PUBLIC_URL, TRUST_PROXY })).toEqual(expected ? ['PUBLIC_URL'] : []);
});

test.each([
  ['http://127.0.0.1:8080', true],
  ['https://127.0.0.1:8080', false],
])('PUBLIC_URL=%s beside a certificate contradicts it: %p', (PUBLIC_URL, expected) => {
  const env = { PUBLIC_URL, TLS_CERT_FILE: './cert.pem', TLS_KEY_FILE: './key.pem' };
  expect(doubted(env)).toEqual(expected ? ['PUBLIC_URL'] : []);
});

test.each([
  [{ TRUST_PROXY: '1', ...ISSUER }, true],
  [{ TRUST_PROXY: '1', JWT_JWKS_URL: 'https://id.example/jwks' }, true],
  [{ TRUST_PROXY: '1', ...ISSUER, PUBLIC_URL: 'https://keys.example' }, false],
  [{ TRUST_PROXY: '1', ...ISSUER, JWT_AUDIENCE: 'keys' }, false],
  [{ TRUST_PROXY: '1', ...ISSUER, ...SECRET }, false],
  [{ ...ISSUER }, false],
])('a proxy with an issuer or a key set: PUBLIC_URL may be missed (row %#)', (env, isWarned) => {
  const [doubt] = contradictions(env as Env, configOf(env as Env));
  expect(doubt?.variable).toBe(isWarned ? 'TRUST_PROXY' : undefined);
  if (isWarned) expect(doubt?.reason).toMatch(/^PUBLIC_URL .*JWT_(ISSUER|JWKS_URL) /);
});

describe('names that are nearly those of variables', () => {
  test.each([
    ['OAUTH_REDIRECT', 'OAUTH_REDIRECTS'],
    ['ALLOWED_ORIGIN', 'ALLOWED_ORIGINS'],
    ['DATABASE_ULR', 'DATABASE_URL'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['JWT_ISSUERS2', 'JWT_ISSUER'],
    ['DATABASE_REPLICA', 'DATABASE_REPLICA_FILE'],
    ['REVOCATION_LAG_MS', 'REVOCATION_LAG_MAX_MS'],
    ['DATABASE_TOKEN', 'DATABASE_AUTH_TOKEN'],
  ])('%s may be meant to be %s', (variable, meant) => {
    expect(misspelt({ [variable]: 'x' } as Env)).toEqual([{ variable, meant }]);
  });

  test.each([
    [
      'of a shell',
      'HOME PATH PWD OLDPWD SHELL SHLVL TERM USER LOGNAME HOSTNAME HOSTTYPE MACHTYPE OSTYPE LANG LC_ALL EDITOR MAIL DISPLAY COLUMNS LINES SSH_AUTH_SOCK SSH_CLIENT SSH_CONNECTION SSH_TTY XDG_RUNTIME_DIR XDG_SESSION_ID XDG_DATA_DIRS LS_COLORS BASH_ENV HISTSIZE HISTFILE COLORTERM TERM_PROGRAM',
    ],
    [
      'of systemd',
      'INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET LISTEN_PID LISTEN_FDS MAINPID SYSTEMD_EXEC_PID MEMORY_PRESSURE_WATCH RUNTIME_DIRECTORY STATE_DIRECTORY LOGS_DIRECTORY CREDENTIALS_DIRECTORY WATCHDOG_USEC',
    ],
    [
      'of containers',
      'KUBERNETES_SERVICE_HOST KUBERNETES_PORT_443_TCP_ADDR KEYS_PORT KEYS_SERVICE_HOST KEYS_SERVICE_PORT DB_PORT DATABASE DATABASE_HOST DATABASE_NAME TOKEN_JWT_ISSUER REDIS_URL CONTAINER container NODE_OPTIONS NODE_PATH NODE_VERSION BUN_INSTALL FLY_APP_NAME DYNO SSL_CERT_FILE TZ',
    ],
    [
      'of npm and continuous integration',
      'npm_lifecycle_event npm_package_version npm_config_user_agent npm_execpath INIT_CWD GITHUB_ACTIONS GITHUB_TOKEN GITHUB_REF RUNNER_OS CI',
    ],
    ['of ours, and of tools', `${NAMES.join(' ')} TOOL_URL TOOL_SECRET`],
    ['with two edits more', 'OAUTH_REDIRECTIONS'],
  ])('none %s', (_, names) => {
    expect(misspelt(Object.fromEntries(names.split(' ').map((name) => [name, 'x'])) as Env)).toEqual([]);
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
