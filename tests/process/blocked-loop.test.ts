// A tool that blocks the process for a second is a line in the log, on both runtimes.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { callOver } from '../support/client.ts';
import { rows } from '../support/everything.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { logOf, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { toolFile } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const busy = (name: string) =>
  toolFile(
    name,
    `({ ms }) => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      return ok({ content: [{ type: 'text' as const, text: 'done' }] });
    }`,
    'v.strictObject({ ms: v.number() })',
  );

test.each(rows(['bun', 'deno'] as const, 1))(
  'each tool that blocks the process for a second or more is one line that names it, on %s; for less, none',
  async (runtime) => {
    const folder = fill(diskFolder(), { 'tools/busy.ts': busy('busy'), 'tools/other.ts': busy('other') });
    await using server = await startServer({ runtime, folder, env: { JWT_SECRET: TEST_SECRET } });
    for (const [tool, ms] of [
      ['busy', 200],
      ['busy', 2000],
      ['busy', 1500],
      ['other', 2000],
    ] as const) {
      expect((await callOver(server.url, tool, { ms })).status).toBe(200);
    }
    const found = () => logOf(server).filter(({ event }) => event === 'event loop blocked');
    await waitFor(() => found().length > 1);
    const lines = found();
    expect(lines).toMatchObject([
      { level: 'warn', event: 'event loop blocked', perhaps: 'busy' },
      { level: 'warn', event: 'event loop blocked', perhaps: 'other' },
    ]);
    expect(lines[0].blockedMs).toBeWithin(1000, 60_000);
  },
);
