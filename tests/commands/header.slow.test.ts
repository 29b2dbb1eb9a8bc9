// How long `keys header` takes at most: a host waits for it.

import { expect, test } from 'bun:test';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/folder.ts';
import { keysCommand } from '../support/keys-command.ts';

test('it ends in time although it had to wait for another call, and then for the server', async () => {
  const home = temporaryFolder();
  const lock = join(home, 'mcp-key-server', 'keys.json.lock');
  mkdirSync(join(lock, '..'));
  writeFileSync(lock, '');
  utimesSync(lock, new Date(), new Date(Date.now() - 8000)); // of a call that was killed, and counts for 2 s more
  using server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Promise<Response>(() => {}) });
  const startedMs = performance.now();
  const ended = await keysCommand({ XDG_CONFIG_HOME: home } as object, ['header', server.url.origin]);
  expect(ended).toMatchObject({ code: 1, stdout: '' });
  expect(performance.now() - startedMs).toBeLessThan(5500); // 5 s are promised
});
