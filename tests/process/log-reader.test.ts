// The reader of the log may end before the server does, like a log collector that is restarted.

import { describe, expect, test } from 'bun:test';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { rows } from '../support/everything.ts';
import { diskFolder, fill, temporaryFolder } from '../support/folder.ts';
import { commandOf, type Runtime } from '../support/server-process.ts';
import { freePorts } from '../support/sqld.ts';
import { waitFor } from '../support/wait-for.ts';

const MAIN = join(import.meta.dir, '../../src/main.ts');

/** The server's URL, read from its stderr, which is not read any further. */
async function urlIn(stderr: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let said = '';
  for await (const chunk of stderr) {
    said += decoder.decode(chunk, { stream: true });
    const url = /listening on (\S+)\n/.exec(said)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error(said);
}

test('without a reader of its log the server goes on, and stops in order', async () => {
  const child = Bun.spawn([process.execPath, MAIN], {
    cwd: temporaryFolder(),
    env: { PORT: '0' },
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const url = await urlIn(child.stderr);
  await child.stdout.cancel();
  for (let call = 0; call < 5; call += 1) {
    expect((await fetch(`${url}/tools/get_data`, { method: 'POST' })).status).toBe(401);
    await Bun.sleep(60); // its line in the log waits for 50 ms at most
  }
  child.kill('SIGTERM');
  expect(await child.exited).toBe(0);
});

test('a reader that pauses gets every line afterwards, whole and in order', async () => {
  const folder = temporaryFolder();
  const fifo = join(folder, 'log');
  Bun.spawnSync(['mkfifo', fifo]);
  const log = openSync(fifo, 'r+'); // keeps what is written while nobody reads
  const child = Bun.spawn([process.execPath, MAIN], { cwd: folder, env: { PORT: '0' }, stdout: log, stderr: 'pipe' });
  const url = await urlIn(child.stderr);
  const calls = 1500; // three times what a pipe holds
  for (let call = 0; call < calls; call += 1) await fetch(`${url}/tools/get_data`, { method: 'POST' });
  const reader = Bun.spawn(['cat'], { stdin: openSync(fifo, 'r'), stdout: 'pipe' });
  child.kill('SIGTERM');
  expect(await child.exited).toBe(0);
  closeSync(log);
  const lines = (await new Response(reader.stdout).text()).trimEnd().split('\n');
  const events = lines.map((line) => JSON.parse(line));
  const refused = events.filter(({ event }) => event === 'No API key provided');
  const order = refused.map(({ requestId }) => Number.parseInt(requestId.split('-')[1], 36));
  expect(order).toEqual(Array.from({ length: calls }, (_, call) => call + 1));
  expect(events.at(-1)).toMatchObject({ event: 'stopped' });
});

/** Ways of a shell to run a program whose stderr takes nothing. */
const DEAF = {
  closed: 'exec "$@" 2>&-',
  'without a reader': 'mkfifo said && exec 3<>said 2>said 3<&- && exec "$@"',
};

const PLACES = rows(['bun', 'deno'] as const, 1).flatMap((runtime) =>
  Object.entries(DEAF).map(([way, script]) => [way, runtime, script] as const),
);

describe.each(PLACES)('with stderr %s, on %s,', (_, runtime: Runtime, script) => {
  const startIn = (folder: string, port = 0) =>
    Bun.spawn(['sh', '-c', script, 'sh', ...commandOf(runtime)], {
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', PORT: String(port) },
      stdout: 'pipe',
    });

  test('the server starts, and stops in order', async () => {
    const [port = 0] = freePorts(1);
    const child = startIn(diskFolder(), port);
    const isUp = () =>
      fetch(`http://127.0.0.1:${port}/mcp/health`).then(
        ({ status }) => status === 200, // its database is open, so it obeys signals
        () => false,
      );
    await waitFor(isUp);
    child.kill('SIGTERM');
    expect(await child.exited).toBe(0);
    const log = await new Response(child.stdout).text();
    expect(log).toContain('"event":"stopped"');
    expect(log).not.toContain('"level":"error"');
  });

  test('a start that fails ends', async () => {
    const child = startIn(fill(diskFolder(), { 'data/keys.db': 'no database' }));
    expect(await child.exited).toBe(1);
  });
});
