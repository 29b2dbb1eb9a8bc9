// Starting: what is printed, what is made, and the one clear line of a start that fails.

import { describe, expect, test } from 'bun:test';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeCertificate } from '../support/certificate.ts';
import { callOver, userHeaders, userToken } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { failingStartOn } from '../support/failing-start.ts';
import { diskFolder, fill, temporaryFolder } from '../support/folder.ts';
import { commandOf, logOf, runToExit, startServer, USUAL_RUNTIME } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { newDatabaseAt } from '../support/template.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const JWT = { JWT_SECRET: TEST_SECRET };
const OPEN_WARNING = 'HOST is open to the network';
const HTTPS_WARNING = 'in production no credential is accepted without HTTPS';

test('with no configuration at all it serves on loopback, keeps keys in ./data, makes its secret once, and says how to sign in', async () => {
  const server = await startServer();
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(server.stderr()).toContain('mcp-key-server 1.0.0 listening on ');
  expect(server.stderr()).toContain(`${server.url}/mcp`);
  expect(server.stderr()).toMatch(/\bbun(@[\d.]+)? run token --sub alice\n/);
  await waitFor(() => server.stdout() !== '');
  expect(logOf(server)).toEqual([
    {
      time: expect.any(String),
      level: 'info',
      event: 'started',
      version: '1.0.0',
      environment: 'development',
      store: 'embedded',
      settings: { PORT: '0' },
      tools: {},
    },
  ]);
  expect(server.stderr()).toMatch(/environment +development\n/);
  const secretFile = join(server.folder, 'data/jwt-secret');
  expect(statSync(secretFile).mode & 0o777).toBe(0o600);
  expect(existsSync(join(server.folder, 'data/keys.db'))).toBe(true);
  expect(statSync(join(server.folder, 'data')).mode & 0o777).toBe(0o700);
  const secret = readFileSync(secretFile, 'utf8').trim();
  expect(secret.length).toBeGreaterThanOrEqual(32);
  for (const unsaid of [secret, 'warning:']) expect(server.stderr()).not.toContain(unsaid);
  const headers = await userHeaders('alice', secret);
  expect((await callOver(server.url, 'create_api_key', { name: 'n', scopes: [] }, headers)).status).toBe(200);
  expect(await server.stop()).toBe(0);
  expect(server.stdout()).not.toContain(secret);
  await using second = await startServer({ folder: server.folder });
  expect(readFileSync(secretFile, 'utf8').trim()).toBe(secret);
  expect((await callOver(second.url, 'list_api_keys', {}, headers)).status).toBe(200);
});

test.skipIf(USUAL_RUNTIME === 'deno')(
  'the banner names a command that works where Bun is on the PATH, and where it is not',
  async () => {
    const hint = async (PATH: string) => {
      await using server = await startServer({ env: { ...JWT, PATH } });
      return /sign in \(mint a token\) +PUBLIC_URL=\S+ (.*)\n/.exec(server.stderr())?.[1];
    };
    const [none, own] = [temporaryFolder(), temporaryFolder()];
    const npx = join(temporaryFolder(), 'node_modules/.bin');
    mkdirSync(npx, { recursive: true });
    for (const folder of [own, npx]) symlinkSync(process.execPath, join(folder, 'bun'));
    expect(await hint(`${npx}:${none}`)).toBe(`npx -y bun@${Bun.version} run token --sub alice`);
    expect(await hint(`${npx}:${own}`)).toBe('bun run token --sub alice');
  },
);

describe('in a folder that everybody may look into', () => {
  const modesIn = (folder: string) =>
    Object.fromEntries(readdirSync(folder).map((name) => [name, statSync(join(folder, name)).mode & 0o777]));
  const env = { DATABASE_URL: 'file:./keys.db' };

  function openFolder(): string {
    process.umask(0o022); // of the servers too
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    return folder;
  }

  test('the files of a server, and the secret beside them, are made for their owner alone, also by two servers at once', async () => {
    const folder = openFolder();
    const servers = await Promise.all([startServer({ folder, env }), startServer({ folder, env })]);
    const made = { 'keys.db': 0o600, 'keys.db-wal': 0o600, 'keys.db-shm': 0o600, 'jwt-secret': 0o600 };
    expect(modesIn(folder)).toEqual(made);
    const headers = await userHeaders('alice', readFileSync(join(folder, 'jwt-secret'), 'utf8').trim());
    for (const { url } of servers) expect((await callOver(url, 'list_api_keys', {}, headers)).status).toBe(200);
    for (const server of servers) expect(await server.stop()).toBe(0);
  });

  test('a database that is there keeps the permissions it was given', async () => {
    const folder = openFolder();
    await using first = await startServer({ folder, env });
    await first.stop();
    chmodSync(join(folder, 'keys.db'), 0o640);
    for (const part of ['-wal', '-shm']) rmSync(join(folder, `keys.db${part}`), { force: true });
    await using _second = await startServer({ folder, env });
    expect(modesIn(folder)).toMatchObject({ 'keys.db': 0o640, 'keys.db-wal': 0o640, 'keys.db-shm': 0o640 });
  });

  test('a database that is a link is used where it leads, even if nothing is there yet', async () => {
    const folder = openFolder();
    symlinkSync('elsewhere.db', join(folder, 'keys.db'));
    await using server = await startServer({ folder, env });
    const made = { 'elsewhere.db': 0o600, 'elsewhere.db-wal': 0o600, 'elsewhere.db-shm': 0o600 };
    expect(modesIn(folder)).toMatchObject(made);
    expect((await fetch(`${server.url}/mcp/health`)).status).toBe(200);
    rmSync(join(folder, 'elsewhere.db-wal'));
    await waitFor(async () => (await fetch(`${server.url}/mcp/health`)).status === 503);
  });
});

test('with JWT_SECRET no secret is made, and none is shown; BASE_PATH and PUBLIC_URL are in the banner and in the paths', async () => {
  const env = { ...JWT, BASE_PATH: '/keys', PUBLIC_URL: 'https://example.com/outside/' };
  await using server = await startServer({ env });
  expect(server.stderr()).toContain('https://example.com/outside/mcp');
  expect((await fetch(`${server.url}/mcp/health`)).status).toBe(200);
  expect(existsSync(join(server.folder, 'data/jwt-secret'))).toBe(false);
  await server.stop();
  expect(server.stderr() + server.stdout()).not.toContain(TEST_SECRET);
});

test('what is surely not as it is meant is a warning, after the first line; what is right is none', async () => {
  const production = { ...JWT, NODE_ENV: 'production', DATABASE_URL: 'file:./kyes/keys.db', HOST: '0.0.0.0' };
  const useless = { MCP_AUTH: 'eager', DATABASE_AUTH_TOKEN: 'hunter2' };
  await using first = await startServer({ env: { ...production, ...useless } });
  await first.stop();
  expect(first.stderr()).toBe(`mcp-key-server 1.0.0 listening on ${first.url}\n`);
  for (const warning of [OPEN_WARNING, HTTPS_WARNING]) expect(first.stdout()).toContain(warning);
  expect(logOf(first)).toContainEqual(
    expect.objectContaining({
      event: 'listening',
      level: 'info',
      on: first.url,
      clients: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/),
      page: expect.stringContaining('/keys'),
    }),
  );
  expect(logOf(first).slice(0, 4)).toMatchObject([
    { level: 'info', event: 'started', environment: 'production' },
    { level: 'warn', event: 'variable without effect', variable: 'MCP_AUTH' },
    {
      level: 'warn',
      event: 'variable without effect',
      variable: 'DATABASE_AUTH_TOKEN',
      reason: 'the database is a file',
    },
    // The path may be mistyped.
    { level: 'warn', event: 'database made in a new folder: no key is known yet', folder: './kyes' },
  ]);
  expect(first.stdout()).not.toContain('hunter2');

  for (const env of [
    { ...production, LOG_LEVEL: 'warn', PUBLIC_URL: 'https://keys.example', TRUST_PROXY: '1' },
    { ...production, LOG_LEVEL: 'warn', ALLOWED_HOSTS: 'a', TRUST_PROXY: '1' },
  ]) {
    await using second = await startServer({ env, folder: first.folder });
    await second.stop();
    expect([second.stdout(), second.stderr()]).toEqual(['', expect.not.stringContaining('warning:')]);
  }
});

test('the first line of the log says what runs, and shows no secret', async () => {
  await using sqld = await startSqld({ auth: true });
  const env = {
    ...JWT,
    ...sqld.env,
    NODE_ENV: 'staging',
    PUBLIC_URL: 'https://keys.example/a',
    JWT_AUDIENCE: 'keys',
  };
  await using server = await startServer({ env });
  await waitFor(() => logOf(server).length > 0);
  expect(logOf(server)[0]).toMatchObject({
    event: 'started',
    environment: 'staging',
    store: 'remote',
    settings: {
      NODE_ENV: 'staging',
      DATABASE_URL: sqld.url,
      DATABASE_AUTH_TOKEN: '(not shown)',
      JWT_SECRET: '(not shown)',
      PUBLIC_URL: 'https://keys.example/a',
      JWT_AUDIENCE: 'keys',
    },
  });
  expect(server.stderr()).toMatch(/environment +staging\n/);
  expect(server.stdout()).not.toContain(sqld.env.DATABASE_AUTH_TOKEN);
  expect(server.stdout()).not.toContain(TEST_SECRET);
});

test('a database out of reach is named without user-info and query', async () => {
  const url = 'http://user:hunter2@127.0.0.1:9/?authToken=hunter2';
  await using server = await startServer({ env: { ...JWT, DATABASE_URL: url } });
  expect((await fetch(`${server.url}/mcp/health`)).status).toBe(503);
  expect(await server.stop()).toBe(0);
  expect(server.stderr()).toContain('http://127.0.0.1:9/');
  expect(server.stdout() + server.stderr()).not.toContain('hunter2');
});

/** What is in a folder, below it too; without what SQLite keeps beside a database while it is open. */
const contentOf = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(({ name }) => !/-(shm|wal)$/.test(name))
    .map((entry) => {
      const path = join(entry.parentPath, entry.name);
      if (entry.isSymbolicLink()) return [path, readlinkSync(path)];
      return [path, entry.isFile() ? readFileSync(path, 'latin1') : ''];
    })
    .sort();

const failing = (env: Record<string, string>) => failingStartOn(USUAL_RUNTIME, env);

describe('a start that fails is one line and a non-zero exit', () => {
  test('as a process too: a bad value, and nothing is made', async () => {
    const folder = temporaryFolder();
    const stderr = 'mcp-key-server: PORT: expected 0-65535, got "80a"\n';
    expect(await runToExit({ folder, env: { PORT: '80a' } })).toEqual({ code: 1, stdout: '', stderr });
    expect(readdirSync(folder)).toEqual([]);
  });

  test('several bad values: a line each', async () => {
    const { code, stderr } = await failing({ PORT: 'x', LOG_LEVEL: 'y' });
    expect([code, stderr.trimEnd().split('\n').length]).toEqual([1, 2]);
  });

  test('a secret in a variable, right or wrong, is never echoed, and the variable is named', async () => {
    for (const secret of [`sk_live_${'7e'.repeat(32)}`, await userToken('a database')]) {
      const remote = { ...JWT, DATABASE_URL: 'http://127.0.0.1:9' };
      const wrong: Record<string, string>[] = [
        { PORT: secret },
        { LOG_LEVEL: secret },
        { RATE_LIMIT_WINDOW: secret },
        { JWT_ISSUER: secret },
        { JWT_JWKS_URL: `https://user:${secret}@id.example/${secret}`, JWT_SECRET: secret },
        { PUBLIC_URL: `https://user:${secret}@keys.example` },
        { DATABASE_URL: secret },
        { DATABASE_URL: `ftp://user:${secret}@db.example/?authToken=${secret}` },
        { TLS_CERT_FILE: `/nowhere/${secret}`, TLS_KEY_FILE: `/nowhere/${secret}` },
        { JWT_SECRET: secret.slice(0, 31) },
        { ...remote, DATABASE_AUTH_TOKEN: `${secret}\nsecond line` },
        { ...remote, DATABASE_AUTH_TOKEN: `${secret}é\u0100` },
      ];
      for (const env of wrong) {
        const { code, stderr, stdout } = await failing(env);
        expect({ env, code }).toEqual({ env, code: 1 });
        for (const part of [secret.slice(0, 31), secret.slice(-20)]) expect(stderr + stdout).not.toContain(part);
        expect(stderr).toMatch(/[A-Z]+_?[A-Z_]+: /);
      }
    }
  });

  test('the token of a database that does not accept it is not in the refusal', async () => {
    await using sqld = await startSqld({ auth: true });
    const token = await userToken('a database');
    const { code, stderr, stdout } = await failing({ ...JWT, ...sqld.env, DATABASE_AUTH_TOKEN: token });
    expect([code, stderr]).toEqual([1, expect.stringContaining('DATABASE_AUTH_TOKEN')]);
    expect(stderr + stdout).not.toContain(token.slice(-20));
  });

  test.each(rows(['bun', 'deno'] as const, 1))(
    'on %s: a secret that is not UTF-8 is refused, not changed',
    async (runtime) => {
      const given = `JWT_SECRET=$(printf '${'x'.repeat(40)}\\374') exec "$@"`;
      const command = ['sh', '-c', given, 'sh', ...commandOf(runtime)];
      const { code, stderr } = await runToExit({ command, runtime, folder: diskFolder() });
      expect({ code, stderr }).toEqual({ code: 1, stderr: 'mcp-key-server: JWT_SECRET: expected text in UTF-8\n' });
    },
  );

  test.each(rows(['bun', 'deno'] as const, 1))('on %s: an argument is refused, not ignored', async (runtime) => {
    const command = [...commandOf(runtime), '--port', '8080'];
    const { code, stderr } = await runToExit({ command, runtime, folder: diskFolder() });
    const said = 'expected no argument, got "--port"; settings are variables, like PORT=8080';
    expect({ code, stderr }).toEqual({ code: 1, stderr: `mcp-key-server: ${said}\n` });
  });

  test('what it had warned of before is in the log, if only the database cannot be opened', async () => {
    const folder = fill(temporaryFolder(), { 'keys.db': NO_DATABASE });
    const env = { ...JWT, DATABASE_URL: `file:${folder}/keys.db`, MCP_AUTH: 'eager' };
    const { code, stdout } = await failing(env);
    expect(code).toBe(1);
    expect(logOf({ stdout: () => stdout })).toMatchObject([
      { level: 'info', event: 'started' },
      { level: 'warn', event: 'variable without effect', variable: 'MCP_AUTH' },
    ]);
    expect((await failing({ ...env, HOST: 'no-such-host.invalid' })).stdout).toBe('');
  });

  const NO_DATABASE = 'this is my diary, and no database at all. '.repeat(500);
  const KNOWN = 'a secret that somebody else has planted here\n';
  const isRoot = process.geteuid?.() === 0;
  if (!isRoot) console.warn("a secret of another user's is not tested: only root can make one");
  const [own, other] = [makeCertificate(), makeCertificate()];

  const inFolder = (folder: string) => ({ ...JWT, DATABASE_URL: `file:${folder}/keys.db` });
  const linkToItself = (): string => {
    const link = join(temporaryFolder(), 'loop');
    symlinkSync(link, link);
    return link;
  };
  /** The start makes a secret, where this is. */
  const planted = (plant: (file: string) => unknown) => (folder: string) => {
    plant(join(folder, 'jwt-secret'));
    return { DATABASE_URL: `file:${folder}/keys.db` };
  };
  const secret = (mode: number) => (file: string) => {
    writeFileSync(file, KNOWN);
    chmodSync(file, mode);
  };
  async function withTable(folder: string, ...statements: readonly string[]) {
    using database = openDatabase(`file:${folder}/keys.db`);
    for (const sql of [...statements, 'PRAGMA wal_checkpoint(TRUNCATE)']) await database.execute(sql);
    return inFolder(folder);
  }

  const CERTIFICATE = 'TLS_CERT_FILE: expected a readable PEM file with a certificate, got ';
  const REMOTE =
    'DATABASE_URL: expected a URL without fragment, and in its query only authToken, or a tls that fits the rest, got ';
  const SECRET = "JWT_SECRET: not set, and the development secret can't be kept in FOLDER/jwt-secret: ";

  type Env = Record<string, string>;
  /** FOLDER stands for the folder, in which nothing may be changed. */
  const ROWS: [string, (folder: string) => Env | Promise<Env>, string | RegExp][] = [
    [
      'a name that does not resolve',
      () => ({ ...JWT, HOST: 'no-such-host.invalid' }),
      'HOST: expected an address or a name that resolves, got "no-such-host.invalid"',
    ],
    [
      'an address that is not of this machine',
      () => ({ ...JWT, HOST: '192.0.2.1' }),
      /^HOST, PORT: expected an address to listen on, but port 0 of 192\.0\.2\.1 can't be used \(\w+\)$/,
    ],
    [
      'a certificate that is missing',
      (folder) => ({ ...JWT, TLS_CERT_FILE: `${folder}/nope`, TLS_KEY_FILE: own.keyFile }),
      `${CERTIFICATE}"FOLDER/nope" (ENOENT)`,
    ],
    [
      'one that is no certificate',
      () => ({ ...JWT, TLS_CERT_FILE: own.keyFile, TLS_KEY_FILE: own.keyFile }),
      `${CERTIFICATE}"${own.keyFile}" (it holds none that can be used)`,
    ],
    [
      'a key that is no key',
      () => ({ ...JWT, TLS_CERT_FILE: own.certFile, TLS_KEY_FILE: own.certFile }),
      /^TLS_KEY_FILE: expected a readable PEM file with a private key, got /,
    ],
    [
      'a private key that is not the certificate’s',
      () => ({ ...JWT, TLS_CERT_FILE: own.certFile, TLS_KEY_FILE: other.keyFile }),
      `TLS_KEY_FILE: expected the key of the certificate in TLS_CERT_FILE, got "${other.keyFile}"`,
    ],
    [
      'a chain that is only written in part',
      () => {
        const certFile = join(temporaryFolder(), 'chain.pem');
        writeFileSync(certFile, own.cert + other.cert.slice(0, other.cert.length / 2));
        return { ...JWT, TLS_CERT_FILE: certFile, TLS_KEY_FILE: own.keyFile };
      },
      /^TLS_CERT_FILE: expected the certificates behind the first to be whole, got "[^"]+\/chain\.pem"$/,
    ],
    ...[
      ['http://127.0.0.1:9?hunter2', 'http://127.0.0.1:9'],
      ['http://127.0.0.1:9/?tls=hunter2', 'http://127.0.0.1:9/'],
      ['libsql://u:hunter2@localhost?tls=0', 'libsql://localhost'],
      ['libsql://localhost:9#hunter2', 'libsql://localhost:9'],
    ].map(([url = '', shown]): (typeof ROWS)[number] => [
      `a remote address with what the driver does not take, not shown: ${url}`,
      () => ({ ...JWT, DATABASE_URL: url }),
      `${REMOTE}"${shown}"`,
    ]),
    [
      'a folder that cannot be made',
      (folder) => ({ ...JWT, DATABASE_URL: `file:${fill(folder, { file: '' })}/file/keys.db` }),
      /^DATABASE_URL: expected a folder that can be made and written, but .+, got "FOLDER\/file"$/,
    ],
    ['a secret that cannot be stored', planted((file) => mkdirSync(file)), new RegExp(`^${SECRET}`)],
    ...[KNOWN, null].map((text): (typeof ROWS)[number] => [
      `a link in place of the secret, to ${text === null ? 'nothing' : 'another'}`,
      planted((file) => {
        const target = join(temporaryFolder(), 'known');
        if (text !== null) writeFileSync(target, text, { mode: 0o600 });
        symlinkSync(target, file);
      }),
      `${SECRET}it is a link; delete it, and it is made anew`,
    ]),
    ...[0o644, 0o640, 0o604, 0o620, 0o602, 0o666].map((mode): (typeof ROWS)[number] => [
      `a secret that others may read or write: mode ${mode.toString(8)}`,
      planted(secret(mode)),
      `${SECRET}others may read or write it (mode ${mode.toString(8)}); if nobody has, give it mode 600, else delete it, and it is made anew`,
    ]),
    [
      'a folder for a database',
      (folder) => ({ ...JWT, DATABASE_URL: `file:${folder}` }),
      'DATABASE_URL: expected a file, but this is a folder, got "FOLDER"',
    ],
    [
      'a pipe for a database',
      () => {
        const pipe = join(temporaryFolder(), 'pipe');
        Bun.spawnSync(['mkfifo', pipe]);
        return { ...JWT, DATABASE_URL: `file:${pipe}` };
      },
      /^DATABASE_URL: expected a file, but this is a device or pipe, got /,
    ],
    [
      'a database where the system lets nobody look',
      () => ({ ...JWT, DATABASE_URL: `file:${linkToItself()}` }),
      /^DATABASE_URL: expected a file that can be written, .*ELOOP.*, got /,
    ],
    [
      'a replica where the system lets nobody look',
      () => ({ ...JWT, DATABASE_URL: 'http://127.0.0.1:9', DATABASE_REPLICA_FILE: linkToItself() }),
      /^DATABASE_REPLICA_FILE: expected a file that can be written, .*ELOOP.*, got /,
    ],
    [
      'a file that is no database',
      (folder) => inFolder(fill(folder, { 'keys.db': NO_DATABASE })),
      /^DATABASE_URL: the file is damaged or no database; nothing was changed/,
    ],
    [
      'a database of another program',
      (folder) => withTable(folder, 'CREATE TABLE songs (title TEXT)', "INSERT INTO songs VALUES ('Yesterday')"),
      /^DATABASE_URL: this database belongs to another program/,
    ],
    [
      'a database of a newer version',
      async (folder) => {
        await newDatabaseAt(join(folder, 'keys.db'));
        return withTable(folder, "INSERT INTO schema_migrations VALUES (999, '0999_future', 0)");
      },
      /written by a newer version of this program/,
    ],
  ];

  async function expectFailure(make: (typeof ROWS)[number][1], expected: string | RegExp): Promise<void> {
    const folder = USUAL_RUNTIME === 'deno' ? diskFolder() : temporaryFolder();
    const env = await make(folder);
    const before = contentOf(folder);
    const { code, stderr, stdout } = await failing(env);
    expect({ code, lines: stderr.split('\n').length }).toEqual({ code: 1, lines: 2 });
    expect(stdout).toMatch(/^(\{.*"event":"started".*\}\n)?$/);
    const said = stderr.trimEnd().replace('mcp-key-server: ', '').replaceAll(folder, 'FOLDER');
    if (typeof expected === 'string') expect(said).toBe(expected);
    else expect(said).toMatch(expected);
    expect(contentOf(folder)).toEqual(before);
  }

  test.each(ROWS)('%s', (_, make, expected) => expectFailure(make, expected));

  test.skipIf(!isRoot)('a file of another user', () => {
    const plant = (file: string) => {
      secret(0o600)(file);
      chownSync(file, 12345, 12345);
    };
    return expectFailure(planted(plant), `${SECRET}it belongs to another user; delete it, and it is made anew`);
  });

  test('a certificate and its key may share a file, in whatever order', async () => {
    const [cert, key] = [own.certFile, own.keyFile].map((file) => readFileSync(file, 'utf8'));
    const file = join(temporaryFolder(), 'both.pem');
    for (const text of [`\ufeff${key}${cert}`, `${cert}${key}`]) {
      writeFileSync(file, text);
      await using server = await startServer({ env: { ...JWT, TLS_CERT_FILE: file, TLS_KEY_FILE: file } });
      expect((await fetch(server.url, { tls: { ca: own.cert } })).status).toBe(200);
    }
  });

  test('a secret that is ours alone is used', async () => {
    const folder = temporaryFolder();
    secret(0o400)(join(folder, 'jwt-secret'));
    await using server = await startServer({ folder, env: { DATABASE_URL: 'file:./keys.db' } });
    const headers = await userHeaders('alice', KNOWN.trim());
    expect((await callOver(server.url, 'list_api_keys', {}, headers)).status).toBe(200);
  });
});
