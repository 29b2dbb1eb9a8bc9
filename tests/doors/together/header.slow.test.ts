// How long `keys header` takes at most: a host waits for it.

import { expect, test } from 'bun:test';
import { temporaryFolder } from '../../support/folder.ts';
import { keysCommand } from '../../support/keys-command.ts';

test('calls of a server that says nothing end in time, those too that wait for another', async () => {
  const home = temporaryFolder();
  using server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Promise<Response>(() => {}) });
  const startedMs = performance.now();
  const calls = Array.from({ length: 3 }, () =>
    keysCommand({ XDG_CONFIG_HOME: home } as object, ['header', server.url.origin]),
  );
  for (const ended of await Promise.all(calls)) expect(ended).toMatchObject({ code: 1, stdout: '' });
  expect(performance.now() - startedMs).toBeLessThan(9500); // 5 s each, but not one after the other
});
