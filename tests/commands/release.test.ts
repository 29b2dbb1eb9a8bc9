// A release, in a clone: what it refuses, what a dry run leaves alone, and what one makes.

import { beforeAll, describe, expect, test } from 'bun:test';
import { cpSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { version } from '../../package.json';
import { output, run } from '../support/command.ts';
import { ROOT } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { productionEnv } from '../support/production.ts';

const PERSON = {
  GIT_AUTHOR_NAME: 'A',
  GIT_AUTHOR_EMAIL: 'a@b.example',
  GIT_COMMITTER_NAME: 'A',
  GIT_COMMITTER_EMAIL: 'a@b.example',
};
const NEXT = version.replace(/\d+$/, (patch) => String(Number(patch) + 1));

let clone = '';
const git = (...args: string[]) => output(['git', ...args], { cwd: clone, env: PERSON });
const release = (...args: string[]) =>
  run([process.execPath, 'src/commands/release.ts', ...args], {
    cwd: clone,
    env: { ...productionEnv(clone), ...PERSON },
  });

/** A repository with the files as they are here, of one commit. */
beforeAll(async () => {
  clone = temporaryFolder();
  for (const path of [
    'src',
    'db',
    '.github',
    '.gitignore',
    'package.json',
    'server.json',
    'tsconfig.json',
    'README.md',
    'LICENSE',
  ]) {
    cpSync(join(ROOT, path), join(clone, path), { recursive: true });
  }
  writeFileSync(
    join(clone, '.gitignore'),
    readFileSync(join(ROOT, '.gitignore'), 'utf8').replace('node_modules/', 'node_modules'),
  );
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  const changelog = join(clone, '.github/CHANGELOG.md');
  const text = readFileSync(changelog, 'utf8').replace(
    /\n## Unreleased\n[\s\S]*?(?=\n## )/,
    '\n## Unreleased\n\n### Added\n\n- A line.\n',
  );
  writeFileSync(changelog, text);
  await git('init', '--quiet');
  await git('add', '.');
  await git('commit', '--quiet', '--message', 'All');
});

describe('it refuses', () => {
  test.each([
    ['no version', [], 'usage: bun run release <major>.<minor>.<patch> [--dry-run]\n'],
    ['what is no version', ['1.x'], 'usage: bun run release <major>.<minor>.<patch> [--dry-run]\n'],
    ['the version that is there', [version], `${version} is not above ${version}\n`],
    ['an earlier one', ['0.9.9'], `0.9.9 is not above ${version}\n`],
  ])('%s', async (_, args, stderr) => {
    expect(await release(...args)).toEqual({ code: 1, stdout: '', stderr });
  });

  test('changes that are not committed, and a changelog with nothing new', async () => {
    const changelog = join(clone, '.github/CHANGELOG.md');
    const before = readFileSync(changelog, 'utf8');
    writeFileSync(changelog, before.replace('### Added\n\n- A line.\n', ''));
    expect((await release(NEXT)).stderr).toBe('there are changes that are not committed\n');
    await git('commit', '--quiet', '--all', '--message', 'Nothing new');
    expect((await release(NEXT)).stderr).toBe('the changelog has nothing new\n');
    await git('reset', '--quiet', '--hard', 'HEAD~1');
  });
});

test('a dry run says what would be done, and changes nothing', async () => {
  const { code, stdout } = await release(NEXT, '--dry-run');
  expect(code).toBe(0);
  expect(stdout).toContain(
    `would make dist/mcp-key-server-${NEXT}.tgz and dist/mcp-key-server\nwould commit and tag v${NEXT}\n`,
  );
  expect(await git('status', '--porcelain')).toBe('');
  expect(await git('tag')).toBe('');
  expect(existsSync(join(clone, 'dist'))).toBe(false);
});

const today = () => new Date().toISOString().slice(0, 10);

test('a release has one version everywhere: files, commit, tag, tarball and executable', async () => {
  const startedOn = today();
  const { code, stderr } = await release(NEXT);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const days = [startedOn, today()]; // two around midnight
  const { packages, ...server } = JSON.parse(readFileSync(join(clone, 'server.json'), 'utf8'));
  expect([server.version, packages[0].version]).toEqual([NEXT, NEXT]);
  const { stdout: left } = await run(['git', 'grep', '--fixed-strings', '--name-only', version, 'HEAD', '--', 'src'], {
    cwd: clone,
  });
  expect(left).toBe('');
  const changelog = readFileSync(join(clone, '.github/CHANGELOG.md'), 'utf8');
  const released = /\n## Unreleased\n\n## (.+)\n\n### Added\n\n- A line\.\n/.exec(changelog)?.[1];
  expect(days.map((day) => `${NEXT} - ${day}`)).toContain(released ?? '');
  expect(await git('status', '--porcelain')).toBe('');
  expect(await git('log', '--format=%s', '-1', `v${NEXT}`)).toBe(`Version ${NEXT}\n`);
  const packed = await output(['tar', '-xzOf', `dist/mcp-key-server-${NEXT}.tgz`, 'package/package.json'], {
    cwd: clone,
  });
  expect(JSON.parse(packed).version).toBe(NEXT);
  const served = Bun.spawn([join(clone, 'dist/mcp-key-server')], {
    cwd: clone,
    env: { PORT: '0' },
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const { value } = await served.stderr.getReader().read();
  served.kill();
  expect(new TextDecoder().decode(value)).toContain(`mcp-key-server ${NEXT} listening`);
  expect((await release(NEXT)).stderr).toBe(`${NEXT} is not above ${NEXT}\n`);
}, 60_000);
