// `keys events --follow`, which runs on for as long as somebody looks.

import { expect, test } from 'bun:test';
import { backupOf } from '../support/backups.ts';
import { openDatabase } from '../support/database-client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { jsonLines, keysCommand, startKeys } from '../support/keys-command.ts';
import { startStore } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import { waitFor } from '../support/wait-for.ts';

/** A server's first upkeep is 2 s after it has opened the database. */
const UPKEEP_AFTER_MS = 2000;

/** Starts the command. `printed`: what it has written so far. */
function follow(env: Readonly<Record<string, string>>) {
  const stdio = ['ignore', 'pipe', 'pipe'];
  const command = startKeys(env, ['events', '--follow'], temporaryFolder(), { stdio });
  let printed = '';
  async function read(stream: ReadableStream<Uint8Array>): Promise<void> {
    for await (const chunk of stream) printed += new TextDecoder().decode(chunk);
  }
  const reading = [command.stdout, command.stderr].map((stream) => read(stream as ReadableStream<Uint8Array>));
  return {
    printed: () => printed,
    async [Symbol.asyncDispose]() {
      command.kill();
      await Promise.all(reading);
    },
  };
}

test('it removes nothing that a server keeps for longer than its own environment says', async () => {
  await using store = await startStore('embedded');
  const env = store.env();
  const database = openDatabase(env.DATABASE_URL ?? '');
  for (const daysAgo of [500, 0])
    await database.execute(
      `INSERT INTO key_events (at_ms, owner, kind, how) VALUES (unixepoch() * 1000 - ${daysAgo * 86_400_000}, 'o', 'blocked', 'sql')`,
    );
  await using following = follow(env);
  await waitFor(() => following.printed().includes('blocked'));
  const openedAtMs = performance.now();
  await waitFor(() => performance.now() - openedAtMs > UPKEEP_AFTER_MS + 500);
  database.close();
  expect(jsonLines(await keysCommand(env, ['events', '--json']))).toHaveLength(2);
});

test('it goes on when the database was away', async () => {
  await using sqld = await startPrimary();
  await using following = follow(sqld.env);
  await waitFor(() => following.printed().includes('SEQ'));
  await sqld.kill();
  await waitFor(() => following.printed().includes('events follow when the database is back: ECONNREFUSED'));
  await sqld.start();
  expect((await keysCommand(sqld.env, ['block', 'mallory'])).code).toBe(0);
  await waitFor(() => following.printed().includes('mallory'));
});

test('it goes on in a file that no server has opened yet, as after a backup was put in its place', async () => {
  const env = { DATABASE_URL: `file:${await backupOf(1)}` };
  await using following = follow(env);
  await waitFor(() => following.printed().includes('SEQ'));
  expect((await keysCommand(env, ['block', 'mallory'])).code).toBe(0);
  await waitFor(() => following.printed().includes('mallory'));
});
