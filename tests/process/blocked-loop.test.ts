// A tool that blocks the process is a line in the log, on both runtimes. And what is none, with a clock moved by hand.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { BLOCKED_MS_MIN, watchLoop } from '../../src/start/loop-watch.ts';
import { callOver } from '../support/client.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

setDefaultTimeout(60_000); // processes are started, on machines that do other things too

const BUSY = `
import { defineTool, ok, v } from 'mcp-key-server';

export default () =>
  defineTool(() => ok({}), {
    name: 'busy', title: 'A tool', description: 'A tool.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({}),
    run() {
      const endMs = performance.now() + 2000;
      while (performance.now() < endMs);
      return ok({ content: [{ type: 'text' as const, text: 'done' }] });
    },
  });
`;

test.each(['bun', 'deno'] as const)(
  'a tool that blocks the process is a line that names it, on %s',
  async (runtime) => {
    const folder = fill(diskFolder(), { 'tools/busy.ts': BUSY });
    await using server = await startServer({ runtime, folder, env: { JWT_SECRET: TEST_SECRET } });
    expect((await callOver(server.url, 'busy')).status).toBe(200);
    const find = () =>
      server
        .stdout()
        .split('\n')
        .find((line) => line.endsWith('}') && line.includes('"event loop blocked"'));
    await waitFor(() => find() !== undefined);
    const line = JSON.parse(find() ?? '');
    expect(line).toMatchObject({ level: 'warn', event: 'event loop blocked', perhaps: 'busy' });
    expect(line.blockedMs).toBeGreaterThanOrEqual(BLOCKED_MS_MIN);
  },
);

test('only a tick that comes a second late is a line, until the watch is cancelled', () => {
  const lines: unknown[] = [];
  let nowMs = 0;
  let timer: { atMs: number; run: () => void } | undefined;
  const cancel = watchLoop({
    clock: {
      monotonicMs: () => nowMs,
      after(ms, run) {
        timer = { atMs: nowMs + ms, run };
        return () => {
          timer = undefined;
        };
      },
    },
    log: { warnOnce: (_event, fields) => void lines.push(fields) },
    lastCalled: () => 'get_data',
  });
  const late = (ms: number) => {
    const { atMs, run } = timer ?? { atMs: nowMs, run() {} };
    nowMs = atMs + ms;
    run();
  };
  late(0);
  late(BLOCKED_MS_MIN - 1);
  expect(lines).toEqual([]);
  late(BLOCKED_MS_MIN);
  expect(lines).toEqual([{ blockedMs: BLOCKED_MS_MIN, perhaps: 'get_data' }]);
  cancel();
  expect(timer).toBeUndefined();
});
