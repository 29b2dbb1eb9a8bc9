// --help and -h of every command: its usage on stdout, and nothing is done. And commands that do not exist.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { main as all } from '../../src/commands/all.ts';
import { main as keys, VERBS } from '../../src/commands/keys.ts';
import { main as token } from '../../src/commands/token.ts';
import { run } from '../support/command.ts';
import { temporaryFolder } from '../support/folder.ts';
import { inProcess } from '../support/keys-command.ts';

const SRC = join(import.meta.dir, '../../src');

test.each([
  ['usage: token --sub user [--expires ', token, ''],
  ['usage: keys <verb>', keys, ''],
  ...Object.keys(VERBS).map((verb) => [`usage: keys ${verb}`, keys, verb] as const),
  ['usage: mcp-key-server [dev | token | health | keys]', all, ''],
  ['usage: token --sub', all, 'token'],
  ['usage: keys <verb>', all, 'keys'],
  ['usage: mcp-key-server health\n', all, 'health'],
] as const)('%#: --help and -h say %j on stdout alone, and end with 0', async (usage, main, name) => {
  for (const help of ['--help', '-h']) {
    const { code, stdout, stderr } = await inProcess(main, {}, [...name.split(' ').filter(Boolean), help]);
    expect({ help, code, stderr, begins: stdout.slice(0, usage.length) }).toEqual({
      help,
      code: 0,
      stderr: '',
      begins: usage,
    });
  }
});

test.each([[[]], [['help']]])('keys %j says which verbs there are', async (args: string[]) => {
  const asked = await inProcess(keys, {}, ['--help']);
  expect(await inProcess(keys, {}, args)).toEqual(asked);
});

test('the usage of all names every verb, and that of a verb is made of what it takes', async () => {
  const { stdout } = await inProcess(keys, {}, ['--help']);
  for (const verb of Object.keys(VERBS)) expect(stdout).toMatch(new RegExp(`^  ${verb}\\b`, 'm'));
  const usageOf = async (...verb: string[]) =>
    (await inProcess(keys, {}, [...verb, '--help'])).stdout.split('\n', 1)[0];
  expect(await usageOf('update')).toBe(
    'usage: keys update <id> [--limit 100/1m|default] [--quota 5000/day|default] [--name NAME] [--days N|never] [--scope S]… [--meta NAME=VALUE]…',
  );
  expect(await usageOf('create')).toStartWith(
    'usage: keys create [--user OWNER] [--name NAME] [--scope S]… [--days N]',
  );
  expect(await usageOf('revoke')).toStartWith('usage: keys revoke [id]… [--user OWNER]');
});

test('what the verbs do is told in 80 columns', async () => {
  for (const args of [['--help'], ...Object.keys(VERBS).map((verb) => [verb, '--help'])]) {
    const { stdout } = await inProcess(keys, {}, args);
    const told = stdout.split('\n').filter((line) => !/^(usage:| {2}[a-z])/.test(line));
    expect(told.filter((line) => line.length > 80)).toEqual([]);
  }
});

const runFile = (file: string, ...args: string[]) =>
  run([process.execPath, '--no-env-file', join(SRC, file), ...args], { cwd: temporaryFolder() });

test('the files that are run are commands', async () => {
  expect(await runFile('commands/build.ts', '-h')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^usage: build/),
  });
  expect(await runFile('commands/token.ts', '-h')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^usage: token/),
  });
  expect(await runFile('cli.ts', '--version')).toEqual({ code: 0, stdout: '1.0.0\n', stderr: '' });
});

test.each([
  ['foo', 'there is no command foo; there are dev, token, health, keys\n'],
  ['tokn', 'there is no command tokn; did you mean token?\n'],
  ['toString', 'there is no command toString; there are dev, token, health, keys\n'],
  [`sk_live_${'0'.repeat(64)}`, 'there is no command [redacted]; there are dev, token, health, keys\n'],
])('%s is no command, and that is said', async (name, said) => {
  expect(await inProcess(all, {}, [name])).toEqual({ code: 2, stdout: '', stderr: `mcp-key-server: ${said}` });
});
