// A tool file that is never loaded: half a minute until the start says so.

import { expect, test } from 'bun:test';
import { folderWith } from '../../support/folder.ts';
import { runToExit } from '../../support/server-process.ts';

test('a file that waits for ever while it is loaded stops the start', async () => {
  const folder = folderWith({ 'tools/a.ts': 'await new Promise(() => {});\nexport default () => [];\n' });
  const { code, stderr } = await runToExit({ folder });
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr:
      'mcp-key-server: tools/a.ts: expected it to be loaded within 30 s; correct it, or rename it to tools/_a.ts to leave it out\n',
  });
}, 60_000);
