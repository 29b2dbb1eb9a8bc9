// Every variable, its default, its bounds, and the line that a bad value gets.

import { describe, expect, test } from 'bun:test';
import { type Config, parseConfig } from '../../src/start/package/index.ts';
import { label } from '../support/labels.ts';
import type { Env } from '../support/test-app.ts';

const SECRET_32 = 'q7Zt0pWm3Lx9Vb2Nc5Rk8Hd1Fg6Js4Ye';

function parsed(env: Env): Config {
  const config = parseConfig(env);
  if (!config.ok) throw new Error(config.error.join('\n'));
  return config.value;
}

function faults(env: Env): readonly string[] {
  const config = parseConfig(env);
  return config.ok ? [] : config.error;
}

test('with nothing set every default holds', () => {
  expect(parsed({})).toEqual({
    environment: 'development',
    production: false,
    host: '127.0.0.1',
    port: 3000,
    reusePort: false,
    basePath: '',
    publicUrl: null,
    database: { mode: 'embedded', path: './data/keys.db' },
    revocationLagMaxMs: 1000,
    keyCacheBytes: 64 * 1024 * 1024,
    keyCeilings: {
      scopes: null,
      daysMax: null,
      limits: { rateLimit: { requests: 1000, windowS: 3600 }, quota: null },
    },
    jwt: { kind: 'dev-secret', folder: './data' },
    keyReveal: 'result',
    jwtIssuer: null,
    jwtAudience: null,
    jwtClaims: { owner: 'sub', scope: null, admin: null },
    authorizationServer: null,
    keysPage: { signIn: null, app: null },
    connect: null,
    device: false,
    resources: [],
    jwtScopes: ['openid'],
    toolsList: 'callable',
    mcpAuth: 'lazy',
    keyDefaults: { rateLimit: { requests: 1000, windowS: 3600 }, quota: null },
    ownerDefaults: { rateLimit: null, quota: null, keysMax: 1000 },
    userRateLimit: { requests: 3000, windowS: 60 },
    usageDays: 62,
    allowedOrigins: null,
    allowedHosts: null,
    tls: null,
    trustProxy: 0,
    keyPrefix: 'sk',
    eventDays: 400,
    eventAddresses: true,
    toolsDir: null,
    sampleTool: true,
    logLevel: 'info',
    accessLog: false,
    metricsToken: null,
  });
});

test('REUSE_PORT shares a port that is known', () => {
  expect(parsed({ REUSE_PORT: '1' })).toMatchObject({ reusePort: true, port: 3000 });
  expect(parsed({ REUSE_PORT: '0', PORT: '0' })).toMatchObject({ reusePort: false, port: 0 });
  expect(faults({ REUSE_PORT: '1', PORT: '0' })).toEqual([
    'PORT: expected 1-65535, because REUSE_PORT is set, got "0"',
  ]);
  expect(faults({ REUSE_PORT: 'yes' })).toEqual(['REUSE_PORT: expected 0 or 1, got "yes"']);
});

test('an empty value counts as not set', () => {
  const empty = Object.fromEntries(
    ['PORT', 'HOST', 'JWT_SECRET', 'DATABASE_URL', 'PUBLIC_URL', 'LOG_LEVEL', 'TRUST_PROXY'].map((name) => [name, '']),
  );
  expect(parsed(empty)).toEqual(parsed({}));
});

describe('NODE_ENV', () => {
  test.each([
    ['production', true],
    ['development', false],
    ['test', false],
    ['staging', false],
    ['pre-production', false],
    ['dev', false],
    ['delivery', false],
    ['pr', false],
  ])('%s is an environment: production %p', (environment, production) => {
    expect(parsed({ NODE_ENV: environment, JWT_SECRET: SECRET_32 })).toMatchObject({ environment, production });
  });

  test.each([
    ...'pro product prod PROD prd live Live Production PRODUCTION prod1'.split(' '),
    ...'produciton prodution productoin proudction productions produktion production. porduciton'.split(' '),
    ...['production ', ' production'],
  ])('%p is surely meant to be production, and stops the start', (name) => {
    expect(faults({ NODE_ENV: name })).toEqual([
      `NODE_ENV: expected "production", or a name unlike it (did you mean "production"?), got ${JSON.stringify(name)}`,
    ]);
  });

  test.each(['a b', 'a\nb', 'ü', 'x'.repeat(65), '"', ' staging'])('%p is no name', (name) => {
    expect(faults({ NODE_ENV: name, JWT_SECRET: SECRET_32 })[0]).toStartWith('NODE_ENV: expected a name of up to 64 ');
  });

  test.each(['development', 'test'])('%s has a secret made up', (name) => {
    expect(parsed({ NODE_ENV: name }).jwt.kind).toBe('dev-secret');
  });

  test.each(['staging', 'dev', 'testing', 'Development'])('%s has to say who signs user tokens', (name) => {
    expect(faults({ NODE_ENV: name })).toEqual([
      `JWT_SECRET: expected JWT_SECRET, JWT_JWKS_URL or JWT_ISSUER to be set in ${name}`,
    ]);
    expect(parsed({ NODE_ENV: name, JWT_ISSUER: 'https://id.example' }).jwt.kind).toBe('discovery');
  });
});

/** Accepted text and what it means; then refused text. */
const BOUNDS: readonly {
  name: string;
  read: (config: Config) => unknown;
  accepted: Readonly<Record<string, unknown>>;
  /** Shown as it is, unless it is a pair whose second text says how. */
  refused: readonly (string | readonly [string, string])[];
  expected: string;
}[] = [
  {
    name: 'PORT',
    read: (config) => config.port,
    accepted: { '0': 0, '1': 1, '65535': 65535 },
    refused: ['65536', '-1', '80a', '1.5', ' 80', '0x50', '1e3', 'NaN', '99999999999999999999'],
    expected: '0-65535',
  },
  {
    name: 'HOST',
    read: (config) => config.host,
    accepted: { '0.0.0.0': '0.0.0.0', '::1': '::1', 'keys.example': 'keys.example' },
    refused: [
      'http://x',
      'a b',
      'a/b',
      '300.1.1.1',
      '127.0.0.1:80',
      'a:b',
      ['https://user:hunter2@x/?a=b', 'https://…@x/?…'],
    ],
    expected: 'an address or host name',
  },
  {
    name: 'BASE_PATH',
    read: (config) => config.basePath,
    accepted: { '/keys': '/keys', '/a/b-c_d.e~f': '/a/b-c_d.e~f', '/.a/..b/...': '/.a/..b/...' },
    refused: ['keys', '/keys/', '/', '//keys', '/a?b', '/a b', '/ü', '/..', '/a/../b', '/./a', '/.'],
    expected: 'a path like /keys, without a slash at its end',
  },
  {
    name: 'PUBLIC_URL',
    read: (config) => config.publicUrl,
    accepted: {
      'https://keys.example': 'https://keys.example',
      'https://keys.example/': 'https://keys.example',
      'http://keys.example:8080/a/b/': 'http://keys.example:8080/a/b',
      'https://KEYS.example/A?': 'https://keys.example/A',
    },
    refused: [
      'keys.example',
      'ftp://keys.example',
      '/a',
      ['https://keys.example/?token=x', 'https://keys.example/?…'],
      ['https://keys.example/?token=x#y', 'https://keys.example/?…#…'],
      ['https://keys.example/a#y', 'https://keys.example/a#…'],
      ['https://user:hunter2@keys.example/?a=b', 'https://…@keys.example/?…'],
      ['user:hunter2@keys.example', '…@keys.example'],
    ],
    expected: 'an http or https URL without query, user or fragment',
  },
  {
    name: 'REVOCATION_LAG_MAX_MS',
    read: (config) => config.revocationLagMaxMs,
    accepted: { '250': 250, '1000': 1000, '60000': 60_000 },
    refused: ['249', '60001', '0', '-1', '1s', '1000.5'],
    expected: '250-60000',
  },
  {
    name: 'KEY_CACHE_MB',
    read: (config) => config.keyCacheBytes / 1024 / 1024,
    accepted: { '8': 8, '4096': 4096 },
    refused: ['7', '4097', '64MB'],
    expected: '8-4096',
  },
  {
    name: 'KEY_SCOPES',
    read: (config) => config.keyCeilings.scopes,
    accepted: {
      read: ['read'],
      ' read  write:orders read': ['read', 'write:orders'],
      ['a'.repeat(100)]: ['a'.repeat(100)],
    },
    refused: [' ', 'a"b', 'a\\b', 'é', 'read\twrite', 'a'.repeat(101), ['libsql://u:hunter2@é', 'libsql://…@é']],
    expected: 'scopes with spaces between, each 1-100 printable ASCII characters without quote or backslash',
  },
  {
    name: 'KEY_MAX_DAYS',
    read: (config) => config.keyCeilings.daysMax,
    accepted: { '1': 1, '36500': 36_500 },
    refused: ['0', '36501', '0.5', '30d'],
    expected: '1-36500',
  },
  {
    name: 'KEY_REVEAL',
    read: (config) => config.keyReveal,
    accepted: { result: 'result', widget: 'widget' },
    refused: ['Widget', 'none', '1'],
    expected: 'result or widget',
  },
  {
    name: 'RATE_LIMIT_REQUESTS',
    read: (config) => config.keyDefaults.rateLimit?.requests ?? null,
    accepted: { '0': null, '1': 1, '5000': 5000 },
    refused: ['-1', '1.5', 'many'],
    expected: '0-1000000000',
  },
  {
    name: 'RATE_LIMIT_WINDOW',
    read: (config) => config.keyDefaults.rateLimit?.windowS,
    accepted: { '5m': 300 }, // the others are in ground/duration.test.ts
    refused: ['0s'],
    expected: 'a window like 30s, 5m, 1h or 1d',
  },
  {
    name: 'MCP_AUTH',
    read: (config) => config.mcpAuth,
    accepted: { lazy: 'lazy', eager: 'eager' },
    refused: ['Eager', '1'],
    expected: 'lazy or eager',
  },
  {
    name: 'OAUTH_REDIRECTS',
    read: (config) => config.connect?.redirects,
    accepted: {
      loopback: { exact: [], prefixes: [], loopback: true },
      'https://a.example/back https://b.example/c/* app.example://back': {
        exact: ['https://a.example/back', 'app.example://back'],
        prefixes: ['https://b.example/c/'],
        loopback: false,
      },
    },
    refused: [
      'http://127.0.0.1/',
      'https://A.example/',
      ['https://a.example/#b', 'https://a.example/#…'],
      'https://a.example/../b',
      'https://a.example/%2e%2e/b',
      'https://a.example/*/b',
      ['https://a.example/b?c=/*', 'https://a.example/b?…'],
      'https://*.example/',
      'javascript:alert(1)',
      'file:///etc/passwd',
      'ftp://a.example/',
      'app://',
      'Loopback',
    ],
    expected:
      'https URIs (exact, or with /* at the end), exact URIs of an app’s own scheme, or the word loopback, with spaces between',
  },
  {
    name: 'OAUTH_RESOURCES',
    read: (config) => config.connect,
    accepted: { 'https://a.example/mcp/ http://127.0.0.1:1/mcp': null }, // no key is handed out
    refused: ['http://a.example/mcp', ['https://a.example/mcp?b', 'https://a.example/mcp?…'], 'a.example'],
    expected: 'https URLs (http on loopback only) without query and fragment, with spaces between',
  },
  {
    name: 'JWT_SCOPES',
    read: (config) => config.jwtScopes,
    accepted: { 'openid api://x/keys openid': ['openid', 'api://x/keys'] },
    refused: ['openid offline_access', 'a"b'],
    expected: 'scopes with spaces between, without offline_access',
  },
  {
    name: 'TRUST_PROXY',
    read: (config) => config.trustProxy,
    accepted: { '0': 0, '1': 1, '32': 32 },
    refused: ['33', '-1', '1.5', 'true', 'yes'],
    expected: '0-32',
  },
  {
    name: 'SAMPLE_TOOL',
    read: (config) => config.sampleTool,
    accepted: { '0': false, '1': true },
    refused: ['false', 'no', '2'],
    expected: '0 or 1',
  },
  {
    name: 'LOG_LEVEL',
    read: (config) => config.logLevel,
    accepted: { debug: 'debug', info: 'info', warn: 'warn', error: 'error' },
    refused: ['INFO', 'trace', 'off'],
    expected: 'debug or info or warn or error',
  },
  {
    name: 'ALLOWED_ORIGINS',
    read: (config) => config.allowedOrigins,
    accepted: {
      'https://app.example': ['https://app.example'],
      'https://a.example, http://b.example:8080': ['https://a.example', 'http://b.example:8080'],
    },
    refused: ['*', 'app.example', 'https://app.example/path', 'https://a.example,', 'null'],
    expected: 'origins like https://app.example, with commas between',
  },
  {
    name: 'ALLOWED_HOSTS',
    read: (config) => config.allowedHosts,
    accepted: { 'keys.example': ['keys.example'], 'A.example,b.example': ['a.example', 'b.example'] },
    refused: ['keys.example:80', 'https://keys.example', '*', 'a,,b', ['ann@keys.example', '…@keys.example']],
    expected: 'host names without port, with commas between',
  },
  {
    name: 'JWT_JWKS_URL',
    read: (config) => (config.jwt.kind === 'jwks' ? config.jwt.url.href : null),
    accepted: {
      'https://id.example/keys': 'https://id.example/keys',
      'http://127.0.0.1:9/keys': 'http://127.0.0.1:9/keys',
      'http://localhost/keys': 'http://localhost/keys',
    },
    refused: ['http://id.example/keys', 'id.example', 'file:///keys'],
    expected: 'an https URL (http on loopback only)',
  },
  {
    name: 'JWT_ISSUER',
    read: (config) => config.jwtIssuer,
    accepted: {
      'https://id.example': 'https://id.example',
      'https://id.example/': 'https://id.example/',
      'http://[::1]:9/x': 'http://[::1]:9/x',
    },
    refused: ['http://id.example', 'issuer', ['https://id.example/#here', 'https://id.example/#…']],
    expected: 'an https URL (http on loopback only) without query and fragment',
  },
];

for (const { name, read, accepted, refused, expected } of BOUNDS) {
  describe(name, () => {
    test.each(Object.entries(accepted))('accepts %s', (value, meaning) => {
      expect(read(parsed({ [name]: value }))).toEqual(meaning);
    });

    const shown = refused.map((value): [string, string] => (typeof value === 'string' ? [value, value] : [...value]));
    test.each(shown.map((row) => [label(row[0]), ...row] as const))(
      'refuses %s, and says what was expected',
      (_label, value, echoed) => {
        expect(faults({ [name]: value })).toEqual([`${name}: expected ${expected}, got ${JSON.stringify(echoed)}`]);
      },
    );
  });
}

describe('DATABASE_URL', () => {
  test.each([
    ['file:./x/keys.db', './x/keys.db'],
    ['file:keys.db', 'keys.db'],
    ['file:/var/lib/keys.db', '/var/lib/keys.db'],
    ['file:///var/lib/keys.db', '/var/lib/keys.db'],
    ['file:./with%20space.db', './with space.db'],
    ['file:./it@home.db', './it@home.db'],
  ])('%s is an embedded database', (url, path) => {
    expect(parsed({ DATABASE_URL: url }).database).toEqual({ mode: 'embedded', path });
  });

  test.each(['http://db.example', 'https://db.example:8080', 'libsql://db-org.turso.io'])('%s is remote', (url) => {
    const remote = { mode: 'remote', url, authToken: null, replicaFile: null } as const;
    expect(parsed({ DATABASE_URL: url }).database).toEqual(remote);
    const env = { DATABASE_URL: url, DATABASE_AUTH_TOKEN: 'token', DATABASE_REPLICA_FILE: './replica.db' };
    expect(parsed(env).database).toEqual({ ...remote, authToken: 'token', replicaFile: './replica.db' });
  });

  test.each([
    'file:',
    'file::memory:',
    'file:%3Amemory%3A',
    'file:file::memory:',
    'file:file:x.db%3Fmode=memory',
    'file:./folder/',
    'file:./folder%2F',
    'file:./x.db?mode=memory',
    'file:./x%00.db',
    'file:./x%zz.db',
    'file:./x.db ',
    'file: ./x.db',
    'keys.db',
    ':memory:',
    'http://',
  ])('%s is refused', (url) => {
    const [line, ...more] = faults({ DATABASE_URL: url });
    expect(line).toStartWith(
      'DATABASE_URL: expected file:<path of a file> without a query, http(s)://… or libsql://…, got "',
    );
    expect(more).toEqual([]);
  });

  test.each([':memory:', 'file:./replica.db', 'file:///replica.db', 'libsql://db.example', './folder/', './r.db '])(
    'no file for a replica is %s',
    (file) => {
      expect(faults({ DATABASE_URL: 'https://db.example', DATABASE_REPLICA_FILE: file })).toEqual([
        `DATABASE_REPLICA_FILE: expected the path of a file, not a URL, got "${file}"`,
      ]);
    },
  );

  test.each([
    ['postgres://user:hunter2@db.example/keys?password=hunter2', 'postgres://db.example/keys'],
    ['postgres://user:hun/ter2@db.example/keys', 'postgres://db.example/keys'],
    ['postgres://user:hun?ter2@db.example/keys', 'postgres://db.example/keys'],
    ['postgres://us@er:hunter2@db.example/keys', 'postgres://db.example/keys'],
    ['user:hunter2@db.example', 'db.example'],
    ['LIBSQL:user:hunter2@db.example#x', 'db.example'],
  ])('%s is shown without user-info and query', (url, shown) => {
    expect(faults({ DATABASE_URL: url })).toEqual([
      `DATABASE_URL: expected file:<path of a file> without a query, http(s)://… or libsql://…, got "${shown}"`,
    ]);
  });

  test.each(['a token', 'token\n', 'tökén', 'token\0'])(
    'DATABASE_AUTH_TOKEN %j is refused, and not echoed',
    (token) => {
      expect(faults({ DATABASE_URL: 'http://db.example', DATABASE_AUTH_TOKEN: token })).toEqual([
        'DATABASE_AUTH_TOKEN: expected printable ASCII on one line (the value is not shown)',
      ]);
    },
  );

  const PRODUCTION = { NODE_ENV: 'production', JWT_SECRET: SECRET_32 };

  test.each([
    ['http://db.example', 'http://db.example'],
    ['http://db.example:8080/a?tls=0', 'http://db.example:8080/a'],
    ['HTTP://DB.EXAMPLE', 'HTTP://DB.EXAMPLE'],
    ['http://10.0.0.1:8080', 'http://10.0.0.1:8080'],
    ['http://[::2]', 'http://[::2]'],
    ['http://127.0.0.1.db.example', 'http://127.0.0.1.db.example'],
    ['libsql://db.example:8080?tls=0', 'libsql://db.example:8080'],
  ])('in production no credential is sent to %s', (url, shown) => {
    const line = `DATABASE_URL: expected an https or libsql URL (http and tls=0 on loopback only) in production, because a credential is sent, got "${shown}"`;
    expect(faults({ ...PRODUCTION, DATABASE_URL: url, DATABASE_AUTH_TOKEN: 'hunter2' })).toEqual([line]);
    const withToken = `${url}${url.includes('?') ? '&' : '?'}authToken=hunter2`;
    expect(faults({ ...PRODUCTION, DATABASE_URL: withToken })).toEqual([line]);
    const withUser = url.replace('://', '://user:hunter2@');
    expect(faults({ ...PRODUCTION, DATABASE_URL: withUser })).toEqual([line]);
    expect(faults({ ...PRODUCTION, DATABASE_URL: url })).toEqual([]);
    expect(faults({ DATABASE_URL: url, DATABASE_AUTH_TOKEN: 'hunter2' })).toEqual([]);
  });

  test.each([
    'https://db.example',
    'libsql://db.example',
    'libsql://db.example?tls=1',
    'http://127.0.0.1:8080',
    'http://localhost:8080',
    'http://[::1]:8080',
    'libsql://LOCALHOST:8080?tls=0',
  ])('in production a token is sent to %s', (url) => {
    expect(faults({ ...PRODUCTION, DATABASE_URL: url, DATABASE_AUTH_TOKEN: 'token' })).toEqual([]);
  });

  test('a replica needs a remote database', () => {
    expect(faults({ DATABASE_REPLICA_FILE: 'r.db' })).toEqual([
      'DATABASE_REPLICA_FILE: expected a remote DATABASE_URL beside it, got "r.db"',
    ]);
  });
});

describe('who signs user tokens', () => {
  test('JWT_SECRET has 32 bytes at least, counted as UTF-8, and is never echoed', () => {
    expect(parsed({ JWT_SECRET: SECRET_32 }).jwt).toEqual({ kind: 'secret', secret: SECRET_32, previous: null });
    expect(parsed({ JWT_SECRET: 'ü'.repeat(16) }).jwt.kind).toBe('secret');
    expect(faults({ JWT_SECRET: 'secret-of-31-bytes-------------' })).toEqual([
      'JWT_SECRET: expected at least 32 bytes (the value is not shown)',
    ]);
  });

  test.each([
    ...['changeme', 'change-me', 'CHANGE_ME', 'please-change-me-', 'your-', 'Replace-This'].map(
      (text) => text + SECRET_32,
    ),
    'placeholder of thirty-two or more bytes',
  ])('a JWT_SECRET like %s stops a start in production alone', (secret) => {
    const fault =
      'expected a secret that nobody can guess, and it reads like an example (`openssl rand -hex 32` makes one)';
    expect(parsed({ JWT_SECRET: secret }).jwt.kind).toBe('secret');
    expect(faults({ NODE_ENV: 'production', JWT_SECRET: secret })).toEqual([`JWT_SECRET: ${fault}`]);
    expect(faults({ NODE_ENV: 'production', JWT_SECRET: SECRET_32, JWT_SECRET_PREVIOUS: secret })).toEqual([
      `JWT_SECRET_PREVIOUS: ${fault}`,
    ]);
  });

  test('JWT_SECRET_PREVIOUS is a secret too, stands beside JWT_SECRET only, and is never echoed', () => {
    const previous = 'p'.repeat(32);
    expect(parsed({ JWT_SECRET: SECRET_32, JWT_SECRET_PREVIOUS: previous }).jwt).toEqual({
      kind: 'secret',
      secret: SECRET_32,
      previous,
    });
    expect(faults({ JWT_SECRET: SECRET_32, JWT_SECRET_PREVIOUS: 'p'.repeat(31) })).toEqual([
      'JWT_SECRET_PREVIOUS: expected at least 32 bytes (the value is not shown)',
    ]);
    expect(faults({ JWT_SECRET_PREVIOUS: previous })).toEqual([
      'JWT_SECRET_PREVIOUS: expected to be unset without JWT_SECRET (the value is not shown)',
    ]);
  });

  test('JWT_SECRET and JWT_JWKS_URL together are refused', () => {
    expect(faults({ JWT_SECRET: SECRET_32, JWT_JWKS_URL: 'https://id.example/keys?key=1' })).toEqual([
      'JWT_JWKS_URL: expected to be unset while JWT_SECRET is set: one of the two decides, got "https://id.example/keys"',
    ]);
  });

  test('with a secret the issuer is any text, and no authorization server is announced', () => {
    const config = parsed({ JWT_SECRET: SECRET_32, JWT_ISSUER: 'my own' });
    expect(config).toMatchObject({ jwtIssuer: 'my own', authorizationServer: null });
  });

  test('without a secret the issuer is the authorization server, its text kept as it is', () => {
    const config = parsed({ JWT_ISSUER: 'https://ID.example' });
    expect(config).toMatchObject({ jwt: { kind: 'discovery' }, authorizationServer: 'https://ID.example' });
    const both = parsed({ JWT_ISSUER: 'https://id.example', JWT_JWKS_URL: 'https://id.example/keys' });
    expect(both).toMatchObject({ jwt: { kind: 'jwks' }, authorizationServer: 'https://id.example' });
  });

  test.each(['user:hunter2', ':hunter2'])('user-info in a URL is refused and not echoed: %s', (userInfo) => {
    for (const name of ['JWT_ISSUER', 'JWT_JWKS_URL', 'PUBLIC_URL', 'ALLOWED_ORIGINS', 'ALLOWED_HOSTS']) {
      const [line, ...more] = faults({ [name]: `https://${userInfo}@id.example/` });
      expect(line).toEndWith('got "https://…@id.example/"');
      expect(more).toEqual([]);
    }
  });

  test('production needs a secret, a key set or an issuer', () => {
    expect(faults({ NODE_ENV: 'production' })).toEqual([
      'JWT_SECRET: expected JWT_SECRET, JWT_JWKS_URL or JWT_ISSUER to be set in production',
    ]);
    for (const env of [
      { JWT_SECRET: SECRET_32 },
      { JWT_JWKS_URL: 'https://id.example/keys' },
      { JWT_ISSUER: 'https://id.example' },
    ]) {
      expect(faults({ NODE_ENV: 'production', ...env })).toEqual([]);
    }
  });

  test('JWT_AUDIENCE is taken as it is', () => {
    expect(parsed({ JWT_AUDIENCE: 'https://keys.example/mcp' }).jwtAudience).toBe('https://keys.example/mcp');
  });
});

describe('the page of keys', () => {
  const issuer = { JWT_ISSUER: 'https://id.example' };

  test('is there unless KEYS_PAGE is 0, and anything but 0 and 1 is refused', () => {
    expect(parsed({}).keysPage).toEqual({ signIn: null, app: null });
    expect(parsed({ KEYS_PAGE: '1', ...issuer }).keysPage).toEqual({ signIn: null, app: null });
    expect(parsed({ KEYS_PAGE: '0', KEYS_PAGE_CLIENT_ID: 'page', ...issuer }).keysPage).toBeNull();
    expect(faults({ KEYS_PAGE: 'off' })).toEqual(['KEYS_PAGE: expected 0 or 1, got "off"']);
  });

  test('signs in at the issuer as a public client, which asks for openid unless told', () => {
    const page = { ...issuer, KEYS_PAGE_CLIENT_ID: 'page' };
    const signIn = { issuer: 'https://id.example', clientId: 'page', scope: 'openid' };
    expect(parsed(page).keysPage).toEqual({ signIn, app: null });
    expect(parsed({ ...page, JWT_JWKS_URL: 'https://id.example/keys' }).keysPage).toEqual({ signIn, app: null });
    const scope = parsed({ ...page, KEYS_PAGE_SCOPE: 'openid  keys' }).keysPage?.signIn?.scope;
    expect(scope).toBe('openid keys');
    expect(faults({ ...page, KEYS_PAGE_SCOPE: '"' })).toHaveLength(1);
  });

  test('signs in at an app, unless its URL could not work, or people sign in at an issuer', () => {
    const at = (url: string) => parsed({ KEYS_PAGE_SIGN_IN: url }).keysPage?.app?.href;
    expect(at('https://app.example/keys?team=a')).toBe('https://app.example/keys?team=a');
    expect(at('http://127.0.0.1:4000')).toBe('http://127.0.0.1:4000/');
    for (const url of [
      ...['http://app.example/', 'ftp://app.example/', 'https://me:pw@app.example/', 'https://app.example/#a', 'app'],
      ...['https://app.example/#', 'https://app.example/?return=a', 'https://app.example/?x=1&state='],
    ]) {
      expect(faults({ KEYS_PAGE_SIGN_IN: url })).toEqual([
        expect.stringMatching(/^KEYS_PAGE_SIGN_IN: expected an https/),
      ]);
    }
    const both = { ...issuer, KEYS_PAGE_CLIENT_ID: 'page', KEYS_PAGE_SIGN_IN: 'https://app.example/' };
    expect(faults(both)).toEqual([expect.stringContaining('KEYS_PAGE_CLIENT_ID: expected to be unset beside')]);
  });

  test('a client without an issuer that signs the tokens is refused', () => {
    const refused = ['KEYS_PAGE_CLIENT_ID: expected JWT_ISSUER beside it, and no JWT_SECRET, got "page"'];
    expect(faults({ KEYS_PAGE_CLIENT_ID: 'page' })).toEqual(refused);
    expect(faults({ KEYS_PAGE_CLIENT_ID: 'page', JWT_SECRET: 'x'.repeat(32), ...issuer })).toEqual(refused);
  });
});

test('a certificate and its key come together', () => {
  expect(parsed({ TLS_CERT_FILE: 'c', TLS_KEY_FILE: 'k' }).tls).toEqual({ certFile: 'c', keyFile: 'k' });
  expect(faults({ TLS_CERT_FILE: 'c' })).toEqual(['TLS_KEY_FILE: expected a file, because TLS_CERT_FILE is set']);
  expect(faults({ TLS_KEY_FILE: 'k' })).toEqual(['TLS_CERT_FILE: expected a file, because TLS_KEY_FILE is set']);
});

test('everything that is wrong is said at once', () => {
  expect(faults({ PORT: 'x', LOG_LEVEL: 'y', DATABASE_URL: 'z' }).map((line) => line.split(':')[0])).toEqual([
    'PORT',
    'DATABASE_URL',
    'LOG_LEVEL',
  ]);
});

test('what variables say together is said beside what is wrong with one, a line for each variable', () => {
  const lines = faults({ NODE_ENV: 'production', PORT: 'x', JWT_SECRET: 'short', TLS_CERT_FILE: 'c' });
  expect(lines.map((line) => line.split(':')[0])).toEqual(['PORT', 'JWT_SECRET', 'TLS_KEY_FILE']);
});

test.each([
  ['JWT_JWKS_URL', { NODE_ENV: 'production', JWT_JWKS_URL: 'x' }],
  ['JWT_SECRET', { JWT_SECRET: 'short', JWT_SECRET_PREVIOUS: 'x'.repeat(32) }],
  ['JWT_SECRET', { JWT_SECRET: 'short', JWT_ISSUER: 'my own' }],
  ['JWT_SECRET', { JWT_SECRET: 'short', KEYS_PAGE_CLIENT_ID: 'page' }],
  ['DATABASE_URL', { DATABASE_URL: 'x', DATABASE_REPLICA_FILE: 'replica.db' }],
])('from a bad %s nothing follows for others (%#)', (name, env) => {
  expect(faults(env).map((line) => line.split(':')[0])).toEqual([name]);
});

test('with OAUTH_REDIRECTS clients sign in when they connect, unless MCP_AUTH says otherwise', () => {
  const redirects = { OAUTH_REDIRECTS: 'loopback' };
  expect(parsed(redirects).mcpAuth).toBe('eager');
  expect(parsed({ ...redirects, MCP_AUTH: 'lazy' }).mcpAuth).toBe('lazy');
  const resources = { OAUTH_RESOURCES: 'https://a.example/mcp/ https://B.example:443/MCP' };
  expect(parsed({ ...redirects, ...resources }).resources).toEqual(['https://a.example/mcp', 'https://b.example/MCP']);
});

test.each(['PUBLIC_URL', 'OAUTH_RESOURCES', 'JWT_JWKS_URL', 'JWT_ISSUER', 'KEYS_PAGE_SIGN_IN', 'DATABASE_URL'])(
  '%s of two lines is no URL, nor is a tab within',
  (name) => {
    const env = name.startsWith('JWT_') ? { JWT_SECRET: '' } : {};
    for (const value of ['https://a.example/\nhttps://b.example/', 'https://a.example\t/x', 'https://a.\r\nexample']) {
      const [line, ...more] = faults({ ...env, [name]: value });
      expect(line).toStartWith(`${name}: expected `);
      expect(more).toEqual([]);
    }
    // An issuer is compared as it stands.
    expect(faults({ ...env, [name]: 'https://a.example/x\n' })).toHaveLength(name === 'JWT_ISSUER' ? 1 : 0);
  },
);

test('an issuer that is only compared is no pattern either', () => {
  const issuer = { JWT_SECRET: 's'.repeat(32), JWT_ISSUER: 'https://*.example' };
  expect(faults(issuer)).toEqual(['JWT_ISSUER: expected no *: no pattern is read here, got "https://*.example"']);
});

describe('what looks right and never works stops the start', () => {
  test.each([
    ['PUBLIC_URL', 'https://*.example', 'no *: no pattern is read here'],
    ['PUBLIC_URL', 'https://keys.example/*', 'no *: no pattern is read here'],
    ['PUBLIC_URL', 'https://a.example;https://b.example', 'one value: no list is read here'],
    ['JWT_JWKS_URL', 'https://a.example/jwks,https://b.example/jwks', 'one value: no list is read here'],
    ['JWT_ISSUER', 'https://*.example', 'no *: no pattern is read here'],
    ['JWT_ISSUER', 'https://a.example,https://b.example', 'one value: no list is read here'],
    ['JWT_AUDIENCE', 'https://a.example https://b.example', 'one value: no list is read here'],
    ['OAUTH_REDIRECTS', 'https://a.example/cb; https://b.example/cb', 'a list with spaces between, not commas'],
    ['KEY_SCOPES', 'read; write', 'a list with spaces between, not commas'],
    ['ADMIN_CLAIM', 'roles=*', 'no *: no pattern is read here'],
    ['ADMIN_CLAIM', 'roles,groups=admin', 'the name of one claim'],
    ['ADMIN_CLAIM', 'keys-admin', 'a claim and its value, like roles=keys-admin'],
    ['KEYS_ACTOR', 'al\nice', '1 to 255 characters without controls'],
    ['JWT_OWNER_CLAIM', 'org_id,sub', 'the name of one claim'],
    ['JWT_SCOPE_CLAIM', 'scope scp', 'the name of one claim'],
    ['OAUTH_RESOURCES', 'https://*.example', 'no *: no pattern is read here'],
    ...['https://a.example,https://b.example', 'https://a.example/x;https://b.example/x'].map((value) => [
      'OAUTH_RESOURCES',
      value,
      'a list with spaces between, not commas',
    ]),
    ['JWT_JWKS_URL', 'https://*.example/x', 'no *: no pattern is read here'],
    ...['*', 'https://*.example'].map((value) => ['JWT_AUDIENCE', value, 'no *: no pattern is read here']),
    ['KEYS_PAGE_SIGN_IN', 'https://*.example/x', 'no *: no pattern is read here'],
    ['KEYS_PAGE_SIGN_IN', 'https://a.example/in,https://b.example/in', 'one value: no list is read here'],
    ['ALLOWED_ORIGINS', 'https://*.example', 'origins like https://app.example, with commas between'],
    ['ALLOWED_ORIGINS', 'chrome-extension://*', 'origins like https://app.example, with commas between'],
    ['OAUTH_REDIRECTS', 'https://a.example/cb,https://b.example/cb', 'a list with spaces between, not commas'],
    ['OAUTH_REDIRECTS', 'loopback, https://b.example/cb', 'a list with spaces between, not commas'],
    ['OAUTH_REDIRECTS', 'https://a.example/cb;https://b.example/cb', 'a list with spaces between, not commas'],
    ['ALLOWED_HOSTS', '.keys.example', 'host names without port, with commas between'],
    ...['JWT_ISSUER', 'JWT_AUDIENCE', 'JWT_SCOPE_CLAIM', 'JWT_OWNER_CLAIM', 'KEYS_PAGE_CLIENT_ID'].map((name) => [
      name,
      'text ',
      'text without space at its ends',
    ]),
    ['KEY_SCOPES', 'read,write', 'a list with spaces between, not commas'],
    ['KEYS_PAGE_SCOPE', 'openid, email', 'a list with spaces between, not commas'],
    ['JWT_SCOPES', 'openid,email', 'a list with spaces between, not commas'],
    ['OWNER_RATE_LIMIT', '1000/367d', 'calls in a window of 10s to 366 days, like 1000/1h'],
    ['USER_RATE_LIMIT', '1000/367d', 'calls in a window of at most 366 days, like 3000/1m, or 0'],
    ...[
      'file:~/keys.db',
      'file:%7E/keys.db',
      'file:$HOME/keys.db',
      'file:$'.concat('{HOME}/keys.db'),
      'file:~bob/keys.db',
      'file:$(pwd)/keys.db',
      'file:`pwd`/keys.db',
      'file: ~/keys.db',
      'file:///~/keys.db',
      "file:'$HOME/keys.db'",
      'file:"keys.db"',
    ].map((url) => ['DATABASE_URL', url, 'a path without ~, $NAME or quotes at its start: nobody expands them']),
    ...['DATABASE_REPLICA_FILE', 'TOOLS_DIR', 'TLS_CERT_FILE', 'TLS_KEY_FILE'].flatMap((name) =>
      ['~/x', '$HOME/x', '$(pwd)/x', ' ~/x', '"x"', '%HOME%/x'].map((path) => [
        name,
        path,
        'a path without ~, $NAME or quotes at its start: nobody expands them',
      ]),
    ),
  ])('%s=%j', (name, value, what) => {
    expect(faults({ [name as string]: value })).toContain(`${name}: expected ${what}, got ${JSON.stringify(value)}`);
  });

  // A URL parser takes all of these, and no host has such a name.
  test.each(['a.example,https://b.example', 'a.example;https://b.example', '$HOST', '%2A.example', '{tenant}.example'])(
    'no URL is one of the host %s',
    (rest) => {
      const url = `https://${rest}/x`;
      const names = [
        'PUBLIC_URL',
        'OAUTH_RESOURCES',
        'JWT_JWKS_URL',
        'JWT_ISSUER',
        'KEYS_PAGE_SIGN_IN',
        'DATABASE_URL',
      ];
      for (const name of names) {
        expect(faults({ [name]: url }).join()).toStartWith(`${name}: expected `);
      }
    },
  );

  test('what is not UTF-8 is refused in each variable', () => {
    const names = ['NODE_ENV', 'HOST', 'PUBLIC_URL', 'DATABASE_URL', 'JWT_JWKS_URL', 'JWT_OWNER_CLAIM', 'TOOLS_DIR'];
    for (const name of [...names, 'DATABASE_AUTH_TOKEN', 'JWT_SECRET_PREVIOUS', 'METRICS_TOKEN']) {
      expect(faults({ [name]: `${'x'.repeat(40)}\u{fffd}` }).join()).toStartWith(`${name}: expected text in UTF-8`);
    }
    expect(faults({ JWT_SECRET: '\u{fffd}'.repeat(40) })).toEqual(['JWT_SECRET: expected text in UTF-8']);
  });

  test.each(['file:./~/keys.db', 'file:%C3%BC.db', "file:./it's $HOME/my.db", 'file:/data/~x.db', 'file:a$b.db'])(
    '%s is a path',
    (url) => {
      expect(faults({ DATABASE_URL: url })).toEqual([]);
    },
  );

  test.each([
    [{ OAUTH_REDIRECTS: 'loopback' }, 'OAUTH_REDIRECTS'],
    [{ OAUTH_CLIENTS: 'known' }, 'OAUTH_CLIENTS'],
    [{ OAUTH_DEVICE: '1' }, 'OAUTH_DEVICE'],
    [{ KEYS_PAGE_SIGN_IN: 'https://app.example/login' }, 'KEYS_PAGE_SIGN_IN'],
    [{ OAUTH_DEVICE: '1', OAUTH_REDIRECTS: 'loopback' }, 'OAUTH_REDIRECTS and OAUTH_DEVICE'],
  ])('in production %j without PUBLIC_URL', (env, named) => {
    const production = { NODE_ENV: 'production', JWT_SECRET: SECRET_32, ...env };
    expect(faults(production)).toEqual([
      `PUBLIC_URL: expected the URL that clients see, because ${named} would send them to a local address`,
    ]);
    expect(faults({ ...production, PUBLIC_URL: 'https://keys.example' })).toEqual([]);
    expect(faults({ ...production, NODE_ENV: 'development' })).toEqual([]);
    expect(faults({ ...production, PUBLIC_URL: 'x' })).toHaveLength(1);
  });
});
