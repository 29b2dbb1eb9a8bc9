// Processes that follow with one replica file, on Bun and Deno: what one has read doesn't overwrite what the others know.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { rows } from '../../../support/everything.ts';
import { diskFolder, temporaryFolder } from '../../../support/folder.ts';
import { commandOf } from '../../../support/server-process.ts';

const FOLLOWERS = join(import.meta.dir, 'followers.ts');

const COMMANDS = [
  ['bun', [process.execPath, '--no-env-file', FOLLOWERS, temporaryFolder()]],
  ['deno', [...commandOf('deno').slice(0, -1), FOLLOWERS, diskFolder()]],
] as const;

test.each(rows(COMMANDS, 1))(
  'a file that three follow never says more than its primary said at its position, on %s',
  async (_, command) => {
    const child = Bun.spawn([...command], { stdout: 'pipe', stderr: 'inherit', stdin: 'ignore' });
    const { late, positions } = (await new Response(child.stdout).json()) as { late: string[]; positions: number };
    expect(late).toEqual([]);
    expect(positions).toBeGreaterThan(50);
  },
  180_000,
);
