// --help and -h of every command that takes arguments: its usage on stdout, and nothing is done.

import { expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { run } from '../support/command.ts';
import { temporaryFolder } from '../support/folder.ts';

const SRC = join(import.meta.dir, '../../src');
const KEYS = join(SRC, 'commands/keys');
const VERBS = readdirSync(KEYS).filter((file) => /export const verb\b/.test(readFileSync(join(KEYS, file), 'utf8')));

const COMMANDS: readonly (readonly [string, string])[] = [
  ['commands/token.ts', 'usage: bun run token --sub'],
  ['commands/keys.ts', 'usage: keys <verb>'],
  ...VERBS.map(
    (file) => [`commands/keys.ts ${basename(file, '.ts')}`, `usage: keys ${basename(file, '.ts')}`] as const,
  ),
  ['commands/build.ts', 'usage: bun run build'],
  ['commands/release.ts', 'usage: bun run release'],
  ['cli.ts', 'usage: mcp-key-server [token | health | keys]'],
  ['cli.ts token', 'usage: '],
  ['cli.ts keys', 'usage: keys <verb>'],
  ['cli.ts health', 'usage: mcp-key-server health'],
];

test.each(COMMANDS)('%s', async (command, usage) => {
  const [file = '', ...args] = command.split(' ');
  for (const help of ['--help', '-h']) {
    const { code, stdout, stderr } = await run([process.execPath, join(SRC, file), ...args, help], {
      cwd: temporaryFolder(),
    });
    expect({ help, code, stderr, begins: stdout.slice(0, usage.length) }).toEqual({
      help,
      code: 0,
      stderr: '',
      begins: usage,
    });
  }
});

test('the command says its version', async () => {
  for (const asked of ['--version', '-v']) {
    const said = await run([process.execPath, join(SRC, 'cli.ts'), asked], { cwd: temporaryFolder() });
    expect(said).toEqual({ code: 0, stdout: '1.0.0\n', stderr: '' });
  }
});
