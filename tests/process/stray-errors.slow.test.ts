// What tools leave behind: a promise that nothing awaits, a throw in a timer. The server logs it and goes on.

import { describe, expect, test } from 'bun:test';
import { callOver } from '../support/client.ts';
import { rows } from '../support/everything.ts';
import { diskFolder, fill } from '../support/folder.ts';
import { logOf, type ServerProcess, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { toolFile } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

/** A tool that anybody may call, and that does `work` when it runs. */
const working = (name: string, work: string) =>
  toolFile(
    name,
    `async () => {
      ${work}
      return ok({ content: [{ type: 'text' as const, text: 'done' }] });
    }`,
  );

const LEFT_BEHIND: Readonly<Record<string, string>> = {
  'a promise that it did not await': "(async () => { throw new Error('left behind'); })();",
  'a promise that is rejected later': "setTimeout(() => void Promise.reject(new Error('left behind')), 1);",
  'a throw in a timer': "setTimeout(() => { throw new Error('left behind'); }, 1);",
  'an error event without a listener':
    "const { EventEmitter } = await import('node:events'); setTimeout(() => new EventEmitter().emit('error', new Error('left behind')), 1);",
  'a throw in a microtask': "queueMicrotask(() => { throw new Error('left behind'); });",
};

async function internalError(server: ServerProcess): Promise<Record<string, unknown>> {
  const find = () => logOf(server).find(({ event }) => event === 'internal error');
  await waitFor(() => find() !== undefined);
  return find();
}

describe.each(rows(['bun', 'deno'] as const, 1))('on %s', (runtime) => {
  test.each(Object.entries(LEFT_BEHIND))(
    '%s is logged with the tool that ran last, and the server goes on',
    async (_what, work) => {
      const waiting = 'await new Promise((resolve) => setTimeout(resolve, 150));';
      const folder = fill(diskFolder(), {
        'tools/careless.ts': working('careless', work),
        'tools/waiting.ts': working('waiting', waiting),
      });
      await using server = await startServer({ runtime, folder, env: { JWT_SECRET: TEST_SECRET } });
      const other = callOver(server.url, 'waiting');
      expect((await callOver(server.url, 'careless')).status).toBe(200);
      expect((await other).status).toBe(200);
      const line = await internalError(server);
      expect(line).toMatchObject({ level: 'error', perhaps: expect.stringMatching(/^(careless|waiting)$/) });
      expect(JSON.stringify(line)).toContain('left behind');
      expect((await callOver(server.url, 'careless')).status).toBe(200);
    },
  );

  test('what a file leaves behind when it is read does not end the start, either', async () => {
    const leaves = Object.values(LEFT_BEHIND).join('\n');
    const folder = fill(diskFolder(), { 'tools/careless.ts': `${working('careless', '')}${leaves}` });
    await using server = await startServer({ runtime, folder, env: { JWT_SECRET: TEST_SECRET } });
    await waitFor(() => logOf(server).filter(({ event }) => event === 'internal error').length === 5);
    expect((await callOver(server.url, 'careless')).status).toBe(200);
  });

  test('something that is no error is survived too', async () => {
    const folder = fill(diskFolder(), {
      'tools/careless.ts': working('careless', "setTimeout(() => { throw 'a text'; }, 1);"),
    });
    await using server = await startServer({ runtime, folder, env: { JWT_SECRET: TEST_SECRET } });
    expect((await callOver(server.url, 'careless')).status).toBe(200);
    await internalError(server);
    expect((await callOver(server.url, 'careless')).status).toBe(200);
  });
});
