// The scripts of package.json: what they let in from the environment.

import { expect, test } from 'bun:test';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';
import { startServer, USUAL_RUNTIME } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const ROOT = join(import.meta.dir, '../../..');
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

test.each(['test', 'test:long'])(
  'bun run %s ignores the environment, but for PATH, HOME and CI, and .env',
  async (name) => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'tests'));
    cpSync(join(ROOT, 'tests/clean-env'), join(folder, 'tests/clean-env'));
    for (const file of ['.env', '.env.test', '.env.local'])
      writeFileSync(join(folder, file), 'PORT=80a\nFROM_FILE=1\n');
    for (const file of ['tests/probe.test.ts', 'tests/probe.long.ts']) {
      writeFileSync(
        join(folder, file),
        "import { test } from 'bun:test';\ntest('probe', () => console.log('ENV', JSON.stringify(process.env)));\n",
      );
    }
    const [, testing] = (scripts[name] as string).split(' && ');
    const child = Bun.spawn(['sh', '-c', testing ?? ''], {
      cwd: folder,
      env: {
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
        HOME: folder,
        PORT: '80a',
        FROM_CALLER: '1',
        HTTP_PROXY: 'http://192.0.2.1',
        NODE_ENV: 'production',
      },
      stdout: 'pipe',
      stderr: 'pipe',
    });
    const [code, stdout] = await Promise.all([child.exited, new Response(child.stdout).text()]);
    expect(code).toBe(0);
    const [seen, ...more] = stdout
      .split('\n')
      .filter((line) => line.startsWith('ENV '))
      .map((line) => JSON.parse(line.slice(4)));
    expect(more).toEqual([]); // each runs its own form of the tests
    // CI decides whether a missing browser fails; the runner numbers its workers.
    const { PATH: _path, CI: _ci, BUN_TEST_WORKER_ID: _bun, JEST_WORKER_ID: _jest, ...rest } = seen;
    expect(rest).toEqual({ HOME: folder, NODE_ENV: 'test', RUST_LOG: 'off' });
  },
);

test('start installs what the lock names for run time, and nothing that only development or a peer asks for', () => {
  const [install, serve] = (scripts.start as string).split(' && ');
  expect(install?.split(' ')).toEqual(
    expect.arrayContaining(['install', '--production', '--omit=peer', '--frozen-lockfile', '1>&2']),
  );
  expect(serve).toBe('RUST_LOG=off exec bun src/main.ts'); // the server is what gets the signals
});

// Deno reads the file that --env-file names.
test.skipIf(USUAL_RUNTIME === 'deno')(
  'the server reads .env in its folder, which the real environment overrules',
  async () => {
    const folder = temporaryFolder();
    writeFileSync(
      join(folder, '.env'),
      `JWT_SECRET="${TEST_SECRET}"\nPUBLIC_URL=https://from.file\nLOG_LEVEL=nonsense\n`,
    );
    await using server = await startServer({ folder, env: { LOG_LEVEL: 'warn' } });
    expect(server.stderr()).toContain('https://from.file/mcp');
  },
);
