// The command `keys`, as a process of its own.

import { join } from 'node:path';
import { temporaryFolder } from './folder.ts';

const COMMAND = join(import.meta.dir, '../../src/commands/keys.ts');

export async function keysCommand(env: Readonly<Record<string, string>>, args: readonly string[], stdin = '') {
  const child = Bun.spawn([process.execPath, '--no-env-file', COMMAND, ...args], {
    cwd: temporaryFolder(),
    env: { PATH: process.env.PATH ?? '', TZ: 'UTC', RUST_LOG: 'off', ...env },
    stdin: new Blob([stdin]),
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [code, stdout, stderr] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, stdout, stderr };
}
