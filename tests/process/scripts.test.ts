// The scripts of package.json: what they let in from the environment, and what the runner of the tests shows.

import { describe, expect, test } from 'bun:test';
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import PACKAGE from '../../package.json';
import { run as runCommand } from '../support/command.ts';
import { ROOT, readDocument } from '../support/documents.ts';
import { fill, folderWith, temporaryFolder } from '../support/folder.ts';
import { productionEnv, productionFolder } from '../support/production.ts';
import { startServer, USUAL_RUNTIME } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const scripts: Readonly<Record<string, string>> = PACKAGE.scripts;

/** A folder with what runs tests, and these in place of ours. */
function folderOf(tests: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder();
  fill(join(folder, 'tests'), tests);
  for (const file of ['tests/clean-env', 'tests/run.ts', 'tests/runner'])
    cpSync(join(ROOT, file), join(folder, file), { recursive: true });
  return folder;
}

const PROBES = ['probe.test.ts', 'probe.slow.test.ts', 'probe.alone.test.ts', 'probe.long.ts'];

test.each([
  ['test', ['probe.test.ts']],
  ['test:slow', ['probe.slow.test.ts']],
  ['test:rest', ['probe.slow.test.ts']],
  ['test:measured', ['probe.alone.test.ts']],
  ['test:all', PROBES.toSorted()],
])(
  'bun run %s runs its own form of the tests, and ignores the environment, but for PATH, HOME and CI, and .env',
  async (name, own) => {
    const says = (file: string) =>
      `import { test } from 'bun:test';\ntest('probe', () => console.log('ENV', JSON.stringify(['${file}', process.env])));\n`;
    const folder = folderOf(Object.fromEntries(PROBES.map((file) => [file, says(file)])));
    for (const file of ['.env', '.env.test', '.env.local']) fill(folder, { [file]: 'PORT=80a\nFROM_FILE=1\n' });
    const testing = scripts[name]?.split(' && ').at(-1);
    const PATH = `${dirname(process.execPath)}:${process.env.PATH}`;
    const env = { PATH, PORT: '80a', FROM_CALLER: '1', HTTP_PROXY: 'http://192.0.2.1', NODE_ENV: 'production' };
    const { code, stdout } = await runCommand(['sh', '-c', testing ?? ''], { cwd: folder, env });
    expect(code).toBe(0);
    const seen: [string, Record<string, string>][] = stdout
      .split('\n')
      .filter((line) => line.startsWith('ENV '))
      .map((line) => JSON.parse(line.slice(4)));
    expect(seen.map(([file]) => file).sort()).toEqual(own);
    for (const [, env] of seen) {
      // CI decides whether a missing browser fails; the runner numbers its workers, which don't optimize, chooses rows, and
      // removes what is left in its folder.
      const {
        PATH: _path,
        CI: _ci,
        BUN_TEST_WORKER_ID: _bun,
        JEST_WORKER_ID: _jest,
        TEST_ROWS: _rows,
        BUN_JSC_useDFGJIT: _optimizes,
        BUN_GC_TIMER_DISABLE: _collects,
        MIMALLOC_PURGE_DELAY: _purges,
        TMPDIR: _tmp,
        ...rest
      } = env;
      expect(rest).toEqual({ HOME: folder, NODE_ENV: 'test' });
    }
  },
);

describe('bun run test', () => {
  const [FAILS, TOO_LONG] = ["throw new Error('why it failed')", 'x'.repeat(121)];
  const probe = (name: string, body = '') =>
    `import { test } from 'bun:test';\ntest(${JSON.stringify(name)}, () => {${body}});\n`;

  async function runTests(
    files: Readonly<Record<string, string>>,
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ) {
    const { code, stdout, stderr } = await runCommand([process.execPath, 'tests/run.ts', ...args], {
      cwd: folderOf(files),
      env: { PATH: process.env.PATH ?? '', ...env },
    });
    return { code, total: stdout.split('\n').at(-2), shown: stderr };
  }

  const FILES = { 'probe.test.ts': probe('beside'), 'probe.alone.test.ts': probe('alone', FAILS) };
  const PASSED = '1 passed, 0 failed, 0 skipped';
  const FAILED = '0 passed, 1 failed, 0 skipped';

  test('runs what its arguments choose', async () => {
    expect(await runTests(FILES, ['./tests/probe.test.ts'])).toMatchObject({ code: 0, total: PASSED });
    expect(await runTests(FILES, ['tests/probe.alone.test.ts'])).toMatchObject({ code: 1, total: FAILED });
    expect(await runTests(FILES, ['tests/nothing.test.ts'])).toMatchObject({ code: 1 });
  });

  test('in CI a skipped test is a failure, unless the list says why it may be', async () => {
    const files = { 'a.test.ts': probe('it passes').replace('test("', 'test.skip("') };
    const listed = { ...files, 'may-skip.json': '[{ "file": "tests/a.test.ts", "name": "it", "reason": "a probe" }]' };
    expect(await runTests(files)).toMatchObject({ code: 0, total: '0 passed, 0 failed, 1 skipped' });
    expect(await runTests(files, [], { CI: 'true' })).toMatchObject({
      code: 1,
      total: '0 passed, 1 failed, 1 skipped',
    });
    expect(await runTests(listed, [], { CI: 'true' })).toMatchObject({ code: 0 });
  });

  test('shows what differs in a long list, which is its last line', async () => {
    const body = `const { expect } = require('bun:test'); const names = Array.from({ length: 60 }, (_, n) => 'name ' + n);
expect([...names, 'the new one']).toEqual(names);`;
    const { shown } = await runTests({ 'a.test.ts': probe('it has all names', body) });
    expect(shown.split('== tests/a.test.ts')[1]).toContain('+   "the new one",');
  });

  test('shows the ten slowest tests', async () => {
    const { shown } = await runTests({ 'a.test.ts': probe('it takes long', 'Bun.sleepSync(20);') });
    expect(shown).toMatch(/^the slowest:\n +\d+\.\d s {2}tests\/a\.test\.ts: it takes long$/m);
  });

  test('says on a terminal how many files of all are done, and nothing of it in a pipe', async () => {
    const files = { 'a.test.ts': probe('it passes'), 'b.test.ts': probe('it passes too') };
    const terminal = ['script', '-qec', `${process.execPath} tests/run.ts`, '/dev/null'];
    const { code, stdout } = await runCommand(terminal, {
      cwd: folderOf(files),
      env: { PATH: process.env.PATH ?? '', TERM: 'xterm' },
    });
    expect(code).toBe(0);
    expect(stdout).toContain('2 of 2 files, 1 passed, 0 failed');
    expect(stdout).toContain('2 passed, 0 failed, 0 skipped');
    expect((await runTests(files)).shown).not.toContain('files');
  });

  test('interrupted, says what had passed, and leaves no folder and no process', async () => {
    const left = temporaryFolder();
    const waits = `
const folder = temporaryFolder();
const child = Bun.spawn(['sleep', '600'], { env: {} });
writeFileSync('${left}/left.json', JSON.stringify([child.pid, folder, process.env.TMPDIR]));
await child.exited;`;
    const imports = `import { writeFileSync } from 'node:fs';
import { temporaryFolder } from '${join(ROOT, 'tests/support/folder.ts')}';
`;
    const source = imports + probe('it passes') + probe('it waits', waits).replace('() =>', 'async () =>');
    const cwd = folderOf({ 'a.test.ts': source.replace(/(import \{ test \}[^\n]*\n)(.*)\1/s, '$1$2') });
    const running = Bun.spawn([process.execPath, 'tests/run.ts', './tests/a.test.ts'], {
      cwd,
      env: { PATH: process.env.PATH ?? '' },
      stdout: 'pipe',
      stderr: 'pipe',
    });
    const note = join(left, 'left.json');
    await waitFor(() => existsSync(note) && readFileSync(note, 'utf8').endsWith(']'));
    const [pid, ...folders] = JSON.parse(readFileSync(note, 'utf8'));
    running.kill('SIGINT');
    const [code, stdout, stderr] = await Promise.all([
      running.exited,
      new Response(running.stdout).text(),
      new Response(running.stderr).text(),
    ]);
    expect([code, stdout.split('\n').at(-2)]).toEqual([1, '1 passed, 0 failed, 0 skipped']);
    expect(stderr).toContain('interrupted (SIGINT)');
    expect(folders.map((folder: string) => existsSync(folder))).toEqual([false, false]);
    await waitFor(() => !existsSync(`/proc/${pid}`)); // until it is reaped
  });

  test('shows of two files what failed alone, at the end once more with how to run it again, and one total', async () => {
    const { code, total, shown } = await runTests({
      'a.test.ts': probe('it passes') + probe("it's (one) of $two", FAILS).replace(/^import.*\n/, ''),
      'b.test.ts': probe('it passes too'),
    });
    expect([code, total]).toEqual([1, '2 passed, 1 failed, 0 skipped']);
    expect(shown).not.toMatch(/^\(pass\)/m);
    const atTheEnd = shown.slice(shown.indexOf('== tests/a.test.ts'));
    expect(atTheEnd).toMatch(/^== .*\n\(fail\) it's \(one\) of \$two\nError: why it failed\n/);
    const again = /^once more: (bun test .*)$/m.exec(shown)?.[1];
    expect(again).toBe("bun test ./tests/a.test.ts -t 'it.s \\(one\\) of \\$two'");
  });

  test('a file that cannot be loaded, and a name of more than 120 characters, are failures', async () => {
    const broken = await runTests({ 'a.test.ts': 'const;', 'b.test.ts': probe('it passes') });
    expect([broken.code, broken.total]).toEqual([1, '1 passed, 1 failed, 0 skipped']);
    expect(broken.shown).toContain('once more: bun test ./tests/a.test.ts');
    const long = await runTests({ 'a.test.ts': probe(TOO_LONG), 'b.test.ts': probe(TOO_LONG.slice(1)) });
    expect([long.code, long.total]).toEqual([1, '2 passed, 1 failed, 0 skipped']);
    expect(long.shown).toContain('its name has more than 120 characters');
  });
});

test('start installs what the lock names for run time, and nothing that only development or a peer asks for', () => {
  const [, install, serve] = (scripts.start ?? '').split(' && ');
  expect(install?.split(' ')).toEqual(
    expect.arrayContaining(['install', '--production', '--omit=peer', '--omit=optional', '--frozen-lockfile', '1>&2']),
  );
  expect(serve).toBe('exec bun src/main.ts'); // the server is what gets the signals
});

describe('the version of Bun', () => {
  const CHECK = 'sh src/commands/with-bun src/commands/bun-version.js && ';

  /** The repository as it is checked out, with a package.json of its own; nothing is installed. */
  function checkout(packageManager: string): string {
    return fill(productionFolder(), { 'package.json': JSON.stringify({ ...PACKAGE, packageManager }) });
  }

  test.each(['start', 'start:deno', 'test'])('is looked at before `%s` installs anything', (script) => {
    expect(scripts[script]).toStartWith(`${CHECK}bun install `);
  });

  test('that is too old ends a script, which says which is needed', async () => {
    const cwd = checkout('bun@1.100.0');
    const command = [process.execPath, 'run', '--silent', 'start:deno'];
    const { code, stdout, stderr } = await runCommand(command, { cwd, env: productionEnv(cwd) });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(`mcp-key-server: expected Bun 1.100.0 or newer, but this is ${Bun.version}.`);
    expect(stderr).toContain('npx -y bun@1.100.0 run start:deno\n');
    expect(stderr).toContain('bash -s bun-v1.100.0\n');
    expect(existsSync(join(cwd, 'node_modules'))).toBe(false);
  });

  test('where there is none on the PATH, a script says what to type', async () => {
    const PATH = temporaryFolder();
    for (const program of ['sh', 'sed']) symlinkSync(Bun.which(program) ?? '', join(PATH, program));
    const env = { PATH, npm_lifecycle_event: 'test' };
    const stderr = `mcp-key-server: Bun is not on the PATH; with Node.js: npx -y ${PACKAGE.packageManager} run test\n`;
    expect(await runCommand(['/bin/sh', '-c', scripts.test ?? ''], { cwd: ROOT, env })).toEqual({
      code: 1,
      stdout: '',
      stderr,
    });
  });

  test.each([`bun@${Bun.version}`, 'bun@1.0.30', 'bun@0.99.0'])('this one passes where %s is needed', (needed) => {
    const { exitCode, stderr } = Bun.spawnSync([process.execPath, 'src/commands/bun-version.js'], {
      cwd: checkout(needed),
    });
    expect({ exitCode, said: stderr.toString() }).toEqual({ exitCode: 0, said: '' });
  });

  test('is the one that the README names', () => {
    expect(readDocument('README.md').text).toContain(`npx -y ${PACKAGE.packageManager} run start`);
    expect(`bun@${PACKAGE.engines.bun}`).toBe(PACKAGE.packageManager.replace('@', '@>='));
  });
});

// Deno reads the file that --env-file names.
test.skipIf(USUAL_RUNTIME === 'deno')(
  'the server reads .env in its folder, which the real environment overrules',
  async () => {
    const text = `JWT_SECRET="${TEST_SECRET}"\nPUBLIC_URL=https://from.file\nLOG_LEVEL=nonsense\n`;
    const folder = folderWith({ '.env': text });
    await using server = await startServer({ folder, env: { LOG_LEVEL: 'warn' } });
    expect(server.stderr()).toContain('https://from.file/mcp');
  },
);

test('bun run build, where start alone has installed packages, says what to run first', async () => {
  const cwd = productionFolder();
  const stderr = 'mcp-key-server: expected the development packages; first run: bun install\n';
  const command = [process.execPath, 'src/commands/build.ts'];
  expect(await runCommand(command, { cwd, env: productionEnv(cwd) })).toEqual({ code: 1, stdout: '', stderr });
});
