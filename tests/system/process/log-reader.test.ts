// The reader of the log may end before the server does, like a log collector that is restarted.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';

const MAIN = join(import.meta.dir, '../../../src/main.ts');

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
