// The bill of a month with two processes, one of which stands still while keys are deleted: what was acknowledged, less what
// of a deleted key had not been exchanged.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { userHeaders } from '../../support/client.ts';
import { callServer, served, useKey } from '../../support/cluster.ts';
import { rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { startProxy } from '../../support/proxy.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { isStopped } from '../../support/sqld.ts';
import { startStore } from '../../support/store-mode.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const EXCHANGE = 'INSERT INTO key_counts';

/** Uses a key so often. All are acknowledged. */
async function use(server: ServerProcess, { key }: { readonly key: string }, times: number): Promise<void> {
  const statuses = await Promise.all(
    Array.from({ length: times }, async () => served(async () => ({ status: await useKey(server, key) }))),
  );
  expect(statuses.map(({ status }) => status)).toEqual(Array(times).fill(200));
}

async function stopped(server: ServerProcess): Promise<void> {
  server.signal('SIGSTOP');
  await waitFor(() => isStopped(server.pid));
}

/** Two servers on a store, of which the one that stands still reaches a primary through a proxy. */
async function startTwo(mode: 'embedded' | 'remote') {
  const store = await startStore(mode, temporaryFolder());
  const env: Record<string, string> = { JWT_SECRET: TEST_SECRET, ...store.env() };
  const proxy = mode === 'remote' ? await startProxy(env.DATABASE_URL ?? '') : null;
  const working = await startServer({ env });
  const still = await startServer({ env: { ...env, ...(proxy && { DATABASE_URL: proxy.url }) } });
  const call = async (owner: string, tool: string, input: object) =>
    (await served(async () => callServer(working, tool, input, await userHeaders(owner)))).body;
  const usage = async (...args: string[]) =>
    jsonLines(await keysCommand(env, ['usage', '--days', '2', '--json', ...args]));
  return {
    proxy,
    working,
    still,
    create: (owner: string): Promise<{ id: string; key: string }> =>
      call(owner, 'create_api_key', { name: 'k', scopes: ['read'] }),
    remove: (owner: string, { id }: { readonly id: string }) => call(owner, 'delete_api_key', { keyId: id }),
    /** Units by owner. */
    billed: async () => Object.fromEntries((await usage()).map(({ owner, units }) => [owner, units])),
    /** Units of acme by key; of all that were deleted together. */
    billedByKey: async () =>
      Object.fromEntries(
        (await usage('--by', 'key', '--owner', 'acme')).map(({ keyId = 'deleted', units }) => [keyId, units]),
      ),
    async [Symbol.asyncDispose]() {
      for (const part of [working, still, ...(proxy ? [proxy] : []), store]) await part[Symbol.asyncDispose]();
    },
  };
}

const STANDING_STILL = [
  ['embedded', 'after it has answered'],
  ['remote', 'while it waits for the end of an exchange'],
  ['remote', 'while the end of an exchange is lost'],
  ['remote', 'after it has answered'],
] as const;

test.each(rows(STANDING_STILL, 1))('%s: a process stands still %s', async (mode, when) => {
  await using two = await startTwo(mode);
  const { proxy, working, still, create, remove, billed, billedByKey } = two;
  const [one, gone, newest] = [await create('acme'), await create('acme'), await create('acme')];
  for (const key of [one, gone, newest]) {
    await use(working, key, 3);
    await use(still, key, 4);
  }
  await waitFor(async () => (await billed()).acme === 21);

  const gate = when.includes('exchange') ? proxy?.delayResponseTo(EXCHANGE) : undefined;
  await use(still, newest, 9);
  await use(still, one, 8);
  await gate?.made;
  await stopped(still);
  const counted = await billedByKey(); // until it goes on, it tells nobody of more
  expect(counted[newest.id]).toBeWithin(7, 16 + 1);
  // The next key may get the place of one that is deleted.
  for (const key of [newest, gone]) await remove('acme', key);
  const another = await create('other');
  await use(working, another, 5);
  await use(working, one, 2);
  if (when.endsWith('lost')) proxy?.silence();
  else gate?.release();
  still.signal('SIGCONT');

  await waitFor(async () => (await useKey(still, newest.key)) === 401); // within the bound
  await use(still, another, 6);
  await use(still, one, 1);
  const bill = { [one.id]: 7 + 8 + 2 + 1, deleted: counted[newest.id] + counted[gone.id] };
  await waitFor(async () => (await billedByKey())[one.id] >= bill[one.id]);
  expect([await still.stop(), await working.stop()]).toEqual([0, 0]);
  expect(await billedByKey()).toEqual(bill);
  expect((await billed()).other).toBe(5 + 6);
});
