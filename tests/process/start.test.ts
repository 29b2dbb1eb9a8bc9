// Starting: what is printed, what is made, and the one clear line of a start that fails.

import { describe, expect, test } from 'bun:test';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { makeCertificate } from '../support/certificate.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { runToExit, type ServerProcess, startServer, USUAL_RUNTIME } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const JWT = { JWT_SECRET: TEST_SECRET };
const linesOf = (log: string) =>
  log
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
/** What it has logged so far. */
const lines = (server: ServerProcess) => linesOf(server.stdout());

describe('with no configuration at all', () => {
  test('it serves on loopback, keeps keys in ./data, makes its secret, and says how to sign in', async () => {
    await using server = await startServer();
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(server.stderr()).toContain('mcp-key-server 1.0.0 listening on ');
    expect(server.stderr()).toContain(`${server.url}/mcp`);
    expect(server.stderr()).toMatch(/\bbun(@[\d.]+)? run token --sub alice\n/);
    await waitFor(() => server.stdout() !== '');
    expect(lines(server)).toEqual([
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
    expect(server.stderr()).not.toContain(secret);
    const created = await callOver(
      server.url,
      'create_api_key',
      { name: 'n', scopes: [] },
      await userHeaders('alice', secret),
    );
    expect(created.status).toBe(200);
    expect(await server.stop()).toBe(0);
    expect(server.stdout()).not.toContain(secret);
  });

  test('the second start reads the secret of the first', async () => {
    const first = await startServer();
    const secret = readFileSync(join(first.folder, 'data/jwt-secret'), 'utf8');
    await first.stop();
    await using second = await startServer({ folder: first.folder });
    expect(readFileSync(join(second.folder, 'data/jwt-secret'), 'utf8')).toBe(secret);
    const headers = await userHeaders('alice', secret.trim());
    expect((await callOver(second.url, 'list_api_keys', {}, headers)).status).toBe(200);
  });
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
    expect(await hint(none)).toBe(`npx -y bun@${Bun.version} run token --sub alice`);
    expect(await hint(`${npx}:${none}`)).toBe(`npx -y bun@${Bun.version} run token --sub alice`);
    expect(await hint(`${npx}:${own}`)).toBe('bun run token --sub alice');
  },
);

test('the secret is kept beside the database file', async () => {
  const folder = temporaryFolder();
  await using _server = await startServer({ folder, env: { DATABASE_URL: 'file:./deep/er/my.db' } });
  expect(readdirSync(join(folder, 'deep/er'))).toContain('jwt-secret');
});

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

  test('the files of a server are made for their owner alone, also by two servers at once', async () => {
    const folder = openFolder();
    const servers = await Promise.all([startServer({ folder, env }), startServer({ folder, env })]);
    const made = { 'keys.db': 0o600, 'keys.db-wal': 0o600, 'keys.db-shm': 0o600, 'jwt-secret': 0o600 };
    expect(modesIn(folder)).toEqual(made);
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
    expect(readdirSync(folder).sort()).toContain('elsewhere.db-wal');
    expect((await fetch(`${server.url}/mcp/health`)).status).toBe(200);
    rmSync(join(folder, 'elsewhere.db-wal'));
    await waitFor(async () => (await fetch(`${server.url}/mcp/health`)).status === 503);
  });
});

test('with JWT_SECRET no secret is made, and none is shown', async () => {
  await using server = await startServer({ env: JWT });
  expect(existsSync(join(server.folder, 'data/jwt-secret'))).toBe(false);
  await server.stop();
  expect(server.stderr() + server.stdout()).not.toContain(TEST_SECRET);
});

test('BASE_PATH and PUBLIC_URL are in the banner and in the paths', async () => {
  await using server = await startServer({
    env: { ...JWT, BASE_PATH: '/keys', PUBLIC_URL: 'https://example.com/outside/' },
  });
  expect(server.stderr()).toContain('https://example.com/outside/mcp');
  expect((await fetch(`${server.url}/mcp/health`)).status).toBe(200);
  await using plain = await startServer({ env: { ...JWT, BASE_PATH: '/keys' } });
  expect(plain.stderr()).toContain(`${plain.url}/mcp`);
});

describe('a HOST open to the network', () => {
  const WARNING = 'warning: HOST is open to the network';
  test('warns without PUBLIC_URL and ALLOWED_HOSTS, and starts', async () => {
    await using server = await startServer({ env: { ...JWT, HOST: '0.0.0.0' } });
    expect(server.stderr()).toContain(WARNING);
  });

  test('does not warn with either, nor on loopback', async () => {
    for (const env of [
      { HOST: '0.0.0.0', PUBLIC_URL: 'https://keys.example' },
      { HOST: '0.0.0.0', ALLOWED_HOSTS: 'a' },
      {},
    ]) {
      await using server = await startServer({ env: { ...JWT, ...(env as Record<string, string>) } });
      expect(server.stderr()).not.toContain(WARNING);
    }
  });
});

test('production that makes its database in a folder that was not there says so, because the path may be mistyped', async () => {
  const LINE = '"level":"warn","event":"database made in a new folder: no key is known yet","folder":"./kyes"';
  const env = { ...JWT, DATABASE_URL: 'file:./kyes/keys.db' };
  const production = { ...env, NODE_ENV: 'production', LOG_LEVEL: 'warn' };
  await using first = await startServer({ env: production });
  await first.stop();
  expect(first.stdout()).toContain(LINE);
  await using second = await startServer({ env: production, folder: first.folder });
  await second.stop();
  expect(second.stdout()).toBe('');
  await using development = await startServer({ env });
  await development.stop();
  expect(development.stdout()).not.toContain('"warn"');
});

test('production without TLS and without a proxy to trust warns that no credential will be accepted', async () => {
  const WARNING = 'warning: in production no credential is accepted without HTTPS';
  const production = { ...JWT, NODE_ENV: 'production' };
  await using plain = await startServer({ env: production });
  expect(plain.stderr()).toContain(WARNING);
  await using proxied = await startServer({ env: { ...production, TRUST_PROXY: '1' } });
  expect(proxied.stderr()).not.toContain(WARNING);
});

describe('the first line of the log', () => {
  test('says what runs, and shows no secret', async () => {
    await using sqld = await startSqld({ auth: true });
    const env = {
      ...JWT,
      ...sqld.env,
      NODE_ENV: 'staging',
      PUBLIC_URL: 'https://keys.example/a',
      JWT_AUDIENCE: 'keys',
    };
    await using server = await startServer({ env });
    await waitFor(() => lines(server).length > 0);
    expect(lines(server)[0]).toMatchObject({
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

  test('comes before what the start warns of', async () => {
    const env = { ...JWT, NODE_ENV: 'production', DATABASE_URL: 'file:./new/keys.db', DATABASE_AUTH_TOKEN: 'x' };
    await using server = await startServer({ env });
    await waitFor(() => lines(server).length >= 3);
    expect(lines(server)).toMatchObject([
      { level: 'info', event: 'started', environment: 'production' },
      { level: 'warn', event: 'variable without effect' },
      { level: 'warn', event: 'database made in a new folder: no key is known yet' },
    ]);
  });
});

test('variables that change nothing are named, their values are not', async () => {
  const env = { ...JWT, MCP_AUTH: 'eager', DATABASE_AUTH_TOKEN: 'hunter2' };
  await using server = await startServer({ env });
  await waitFor(() => lines(server).length > 2);
  const named = lines(server).filter(({ event }) => event === 'variable without effect');
  expect(named).toMatchObject([
    { level: 'warn', variable: 'MCP_AUTH' },
    { level: 'warn', variable: 'DATABASE_AUTH_TOKEN', reason: 'the database is a file' },
  ]);
  expect(server.stdout()).not.toContain('hunter2');
});

/** The one line of a start that failed; the log has at most its first. */
async function failure(env: Record<string, string>, folder?: string): Promise<string> {
  const { code, stderr, stdout } = await runToExit({ env, ...(folder !== undefined && { folder }) });
  expect(code).toBe(1);
  expect(stdout).toMatch(/^(\{.*"event":"started".*\}\n)?$/);
  expect(stderr.endsWith('\n')).toBe(true);
  const lines = stderr.trimEnd().split('\n');
  expect(lines).toHaveLength(1);
  return lines[0] ?? '';
}

describe('a start that fails is one line and a non-zero exit', () => {
  test('a bad value, and nothing is made', async () => {
    const folder = temporaryFolder();
    expect(await failure({ PORT: '80a' }, folder)).toBe('mcp-key-server: PORT: expected 0-65535, got "80a"');
    expect(readdirSync(folder)).toEqual([]);
  });

  test('several bad values: a line each', async () => {
    const { code, stderr } = await runToExit({ env: { PORT: 'x', LOG_LEVEL: 'y' } });
    expect(code).toBe(1);
    expect(stderr.trimEnd().split('\n')).toHaveLength(2);
  });

  test('secrets are never echoed', async () => {
    const { stderr } = await runToExit({
      env: {
        JWT_SECRET: 'hunter2-short',
        DATABASE_URL: 'postgres://user:hunter2@db.example/x?password=hunter2',
        DATABASE_AUTH_TOKEN: 'hunter2',
        PUBLIC_URL: 'https://user:hunter2@keys.example',
      },
    });
    expect(stderr).toContain('JWT_SECRET');
    expect(stderr).toContain('DATABASE_URL');
    expect(stderr).not.toContain('hunter2');
  });

  test('the start is refused when its port is in use', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', () => resolve()));
    const { port } = taken.address() as { port: number };
    expect(await failure({ ...JWT, PORT: String(port) })).toBe(
      `mcp-key-server: HOST, PORT: expected an address to listen on, but port ${port} of 127.0.0.1 is in use`,
    );
    taken.close();
  });

  test('what it had warned of before is in the log, if only the database cannot be opened', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'keys.db'), 'this is not a database, and long enough to be looked at'.repeat(20));
    const env = { ...JWT, DATABASE_URL: 'file:./keys.db', MCP_AUTH: 'eager' };
    const { code, stdout } = await runToExit({ folder, env });
    expect(code).toBe(1);
    expect(linesOf(stdout)).toMatchObject([
      { level: 'info', event: 'started' },
      { level: 'warn', event: 'variable without effect', variable: 'MCP_AUTH' },
    ]);
    expect((await runToExit({ env: { ...env, HOST: 'no-such-host.invalid' } })).stdout).toBe('');
  });

  test('a name that does not resolve', async () => {
    expect(await failure({ ...JWT, HOST: 'no-such-host.invalid' })).toBe(
      'mcp-key-server: HOST: expected an address or a name that resolves, got "no-such-host.invalid"',
    );
  });

  test('an address that is not of this machine', async () => {
    expect(await failure({ ...JWT, HOST: '192.0.2.1', PORT: '0' })).toMatch(
      /^mcp-key-server: HOST, PORT: expected an address to listen on, but port 0 of 192\.0\.2\.1 can't be used \(\w+\)$/,
    );
  });

  test('a certificate that is missing, one that is no certificate, and a key that is no key', async () => {
    const folder = temporaryFolder();
    const file = join(folder, 'cert.pem');
    writeFileSync(file, 'no certificate');
    const nope = join(folder, 'nope');
    const expected = 'mcp-key-server: TLS_CERT_FILE: expected a readable PEM file with a certificate, got ';
    expect(await failure({ ...JWT, TLS_CERT_FILE: nope, TLS_KEY_FILE: file })).toBe(`${expected}"${nope}" (ENOENT)`);
    expect(await failure({ ...JWT, TLS_CERT_FILE: file, TLS_KEY_FILE: file })).toBe(
      `${expected}"${file}" (it holds none that can be used)`,
    );
    const { certFile } = makeCertificate();
    expect(await failure({ ...JWT, TLS_CERT_FILE: certFile, TLS_KEY_FILE: certFile })).toStartWith(
      'mcp-key-server: TLS_KEY_FILE: expected a readable PEM file with a private key, got ',
    );
  });

  test('a private key that is not the certificate’s', async () => {
    const [own, other] = [makeCertificate(), makeCertificate()];
    expect(await failure({ ...JWT, TLS_CERT_FILE: own.certFile, TLS_KEY_FILE: other.keyFile })).toBe(
      `mcp-key-server: TLS_KEY_FILE: expected the key of the certificate in TLS_CERT_FILE, got "${other.keyFile}"`,
    );
  });

  test.each([
    ['http://127.0.0.1:9?hunter2', 'http://127.0.0.1:9'],
    ['http://127.0.0.1:9/?tls=hunter2', 'http://127.0.0.1:9/'],
    ['libsql://u:hunter2@localhost?tls=0', 'libsql://localhost'],
    ['libsql://localhost:9#hunter2', 'libsql://localhost:9'],
  ])('a remote address with what the driver does not take, not shown: %s', async (url, shown) => {
    expect(await failure({ ...JWT, DATABASE_URL: url })).toBe(
      `mcp-key-server: DATABASE_URL: expected a URL without fragment, and in its query only authToken, or a tls that fits the rest, got "${shown}"`,
    );
  });

  test('the start is refused when its folder cannot be made', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'file'), '');
    expect(await failure({ ...JWT, DATABASE_URL: 'file:./file/keys.db' }, folder)).toMatch(
      /^mcp-key-server: DATABASE_URL: expected a folder that can be made and written, but .+, got ".\/file"$/,
    );
  });

  test('the start is refused when its secret cannot be stored', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'data/jwt-secret'), { recursive: true });
    expect(await failure({}, folder)).toStartWith('mcp-key-server: JWT_SECRET: not set, and the development secret');
  });

  describe('a development secret that somebody else may know', () => {
    const KNOWN = 'a secret that somebody else has planted here\n';
    const isRoot = process.geteuid?.() === 0;
    if (!isRoot) console.warn("a secret of another user's is not tested: only root can make one");

    /** What a start says of a secret that `plant` has put there; the file stays as it is. */
    async function refusal(plant: (file: string) => void): Promise<string> {
      const folder = temporaryFolder();
      mkdirSync(join(folder, 'data'));
      const file = join(folder, 'data/jwt-secret');
      plant(file);
      const line = await failure({}, folder);
      expect(lstatSync(file, { throwIfNoEntry: false })).toBeDefined();
      expect(readdirSync(join(folder, 'data')).filter((name) => name.includes('jwt-secret'))).toEqual(['jwt-secret']);
      const told = "mcp-key-server: JWT_SECRET: not set, and the development secret can't be kept in data/jwt-secret: ";
      expect(line).toStartWith(told);
      return line.slice(told.length);
    }

    const planted = (mode: number) => (file: string) => {
      writeFileSync(file, KNOWN);
      chmodSync(file, mode);
    };

    test('a link, to a secret or to nothing', async () => {
      const target = join(temporaryFolder(), 'known');
      writeFileSync(target, KNOWN, { mode: 0o600 });
      for (const to of [target, '/nowhere']) {
        expect(await refusal((file) => symlinkSync(to, file))).toBe('it is a link; delete it, and it is made anew');
      }
    });

    test.each([0o644, 0o640, 0o604, 0o620, 0o602, 0o666])(
      'a file that others may read or write: mode %o',
      async (mode) => {
        expect(await refusal(planted(mode))).toBe(
          `others may read or write it (mode ${mode.toString(8)}); if nobody has, give it mode 600, else delete it, and it is made anew`,
        );
      },
    );

    test.skipIf(!isRoot)('a file of another user', async () => {
      const plant = (file: string) => {
        planted(0o600)(file);
        chownSync(file, 12345, 12345);
      };
      expect(await refusal(plant)).toBe('it belongs to another user; delete it, and it is made anew');
    });

    test('one that is ours alone is used', async () => {
      const folder = temporaryFolder();
      mkdirSync(join(folder, 'data'));
      planted(0o400)(join(folder, 'data/jwt-secret'));
      await using server = await startServer({ folder });
      const headers = await userHeaders('alice', KNOWN.trim());
      expect((await callOver(server.url, 'list_api_keys', {}, headers)).status).toBe(200);
    });
  });

  test('the start is refused when the database is a folder', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'keys.db'));
    expect(await failure({ ...JWT, DATABASE_URL: 'file:./keys.db' }, folder)).toStartWith(
      'mcp-key-server: DATABASE_URL',
    );
  });

  test('a file that is no database, untouched', async () => {
    const folder = temporaryFolder();
    const file = join(folder, 'keys.db');
    const content = 'this is my diary, and no database at all. '.repeat(500);
    writeFileSync(file, content);
    expect(await failure({ ...JWT, DATABASE_URL: `file:${file}` }, folder)).toContain(
      'DATABASE_URL: the file is damaged or no database; nothing was changed',
    );
    expect(readFileSync(file, 'utf8')).toBe(content);
  });

  test('a database of another program, untouched', async () => {
    const folder = temporaryFolder();
    const file = join(folder, 'keys.db');
    const other = openDatabase(`file:${file}`);
    await other.execute('CREATE TABLE songs (title TEXT)');
    await other.execute("INSERT INTO songs VALUES ('Yesterday')");
    other.close();
    const before = readFileSync(file);
    expect(await failure({ ...JWT, DATABASE_URL: `file:${file}` }, folder)).toContain(
      'DATABASE_URL: this database belongs to another program',
    );
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(readdirSync(folder)).toEqual(['keys.db']);
  });

  test('a database of a newer version, untouched', async () => {
    const server = await startServer({ env: JWT });
    await server.stop();
    const file = join(server.folder, 'data/keys.db');
    const db = openDatabase(`file:${file}`);
    await db.execute("INSERT INTO schema_migrations VALUES (999, '0999_future', 0)");
    await db.execute('PRAGMA wal_checkpoint(TRUNCATE)'); // closing does so too, but only once the driver lets go
    db.close();
    const before = readFileSync(file);
    expect(await failure(JWT, server.folder)).toContain('written by a newer version of this program');
    expect(readFileSync(file).equals(before)).toBe(true);
  });
});
