// `keys events --follow`, which runs on for as long as somebody looks.

import { expect, test } from 'bun:test';
import { openDatabase } from '../support/database-client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { jsonLines, keysCommand, startKeys } from '../support/keys-command.ts';
import { startStore } from '../support/store-mode.ts';
import { waitFor } from '../support/wait-for.ts';

/** A server's first upkeep is 2 s after it has opened the database. */
const UPKEEP_AFTER_MS = 2000;

test('it removes nothing that a server keeps for longer than its own environment says', async () => {
  await using store = await startStore('embedded');
  const env = store.env();
  const database = openDatabase(env.DATABASE_URL ?? '');
  for (const daysAgo of [500, 0])
    await database.execute(
      `INSERT INTO key_events (at_ms, owner, kind, how) VALUES (unixepoch() * 1000 - ${daysAgo * 86_400_000}, 'o', 'blocked', 'sql')`,
    );
  await using command = startKeys(env, ['events', '--follow'], temporaryFolder(), {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let printed = '';
  const reading = (async () => {
    for await (const chunk of command.stdout as ReadableStream<Uint8Array>) printed += new TextDecoder().decode(chunk);
  })();
  await waitFor(() => printed.includes('blocked'));
  const openedAtMs = performance.now();
  await waitFor(() => performance.now() - openedAtMs > UPKEEP_AFTER_MS + 500);
  database.close();
  expect(jsonLines(await keysCommand(env, ['events', '--json']))).toHaveLength(2);
  command.kill();
  await reading;
});
