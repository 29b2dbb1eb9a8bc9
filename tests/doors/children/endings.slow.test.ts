// A child ends with its parent in every process within the bound, however the parent ends, wherever the store is; and what
// is left of one whose server is killed before its response.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { childEndings } from '../../lab/kills/child-endings.ts';
import { storedChildren } from '../../store/stored.ts';
import { childOf, exchange } from '../../support/children.ts';
import { userHeaders } from '../../support/client.ts';
import { callServer, startCluster, useKey } from '../../support/cluster.ts';
import { rows } from '../../support/everything.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { startProxy } from '../../support/proxy.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { startPrimary } from '../../support/template.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const LAG_MAX_MS = 1000; // the default

describe.each(rows(['bun', 'deno'] as const, 1))('two servers on %s', (runtime) => {
  test.each(rows(['embedded', 'replica', 'remote'] as const, 1))('of the kind %s: eleven endings', async (mode) => {
    await using cluster = await startCluster([mode, mode], {}, [runtime, runtime]);
    for (const { how, lastSuccessMs, odd } of await childEndings(cluster, 1)) {
      expect({ how, odd }).toEqual({ how, odd: [] });
      expect(lastSuccessMs, how).toBeGreaterThan(-3 * LAG_MAX_MS); // it did not end long before
      expect(lastSuccessMs, how).toBeLessThan(LAG_MAX_MS);
    }
  });
});

test('a server that is killed between insert and response leaves a child that nobody has, and that its owner ends', async () => {
  await using primary = await startPrimary();
  await using proxy = await startProxy(primary.url);
  const env = { ...primary.env, JWT_SECRET: TEST_SECRET };
  await using killed = await startServer({ env: { ...env, DATABASE_URL: proxy.url } });
  await using other = await startServer({ env });
  const alice = await userHeaders('alice');
  const call = async (tool: string, input: object) => (await callServer(other, tool, input, alice)).body;
  const parent = await call('create_api_key', { name: 'parent', scopes: ['read', 'delegate'] });
  const insert = proxy.delayResponseTo('INSERT INTO children');
  const answer = exchange(killed, parent.key, { client_name: 'lost' }).catch(() => 'none');
  await insert.made;
  await killed.kill();
  expect(await answer).toBe('none');

  const again = await childOf(other, parent.key, { client_name: 'again' });
  const listed = async () => (await call('list_api_keys', { childrenOf: parent.id })).keys;
  const [, lost] = await listed();
  expect(await listed()).toMatchObject([{ id: again.id, name: 'again' }, { name: 'lost' }]);
  await call('revoke_api_key', { keyId: lost.id });
  expect(await listed()).toMatchObject([{ id: again.id }]);
  expect(await useKey(other, again.key)).toBe(200);
  const events = jsonLines(await keysCommand(primary.env, ['events', '--key', parent.id, '--json']));
  expect(events.map(({ kind, actor }) => [kind, actor])).toEqual([
    ['created', 'alice'],
    ['delegated', lost.id],
    ['delegated', again.id],
    ['child_ended', 'alice'],
  ]);
  for (const secret of [parent.key, again.key]) {
    expect(JSON.stringify([events, await storedChildren(primary.url), killed.stdout()])).not.toContain(secret);
  }
});

// race.test.ts between real processes: on a primary a gate holds the response to a child's read, on a file the process that
// reads is stopped.

/** No poll comes by itself while a test runs. */
const LONG_MS = '60000';
const BOUND_MS = 1000; // the default

async function makePair(server: ServerProcess) {
  const alice = await userHeaders('alice');
  const create = async (scopes: string[]) =>
    (await callServer(server, 'create_api_key', { name: 'k', scopes }, alice)).body as { id: string; key: string };
  const [parent, other] = [await create(['read', 'delegate']), await create(['read'])];
  const child = await childOf(server, parent.key);
  const end = async (at: ServerProcess, { id }: { readonly id: string }) =>
    void expect((await callServer(at, 'revoke_api_key', { keyId: id }, alice)).status).toBe(200);
  return { parent, child, other, end };
}

describe.each(rows(['bun', 'deno'] as const, 1))('two processes on %s', (runtime) => {
  test.each(['before', 'after'])('on a primary, a read that is under way, begun %s its parent’s end', async (order) => {
    await using primary = await startPrimary();
    await using proxy = await startProxy(primary.url);
    const env = { ...primary.env, JWT_SECRET: TEST_SECRET, REVOCATION_LAG_MAX_MS: LONG_MS };
    await using elsewhere = await startServer({ runtime, env });
    await using here = await startServer({ runtime, env: { ...env, DATABASE_URL: proxy.url } });
    const { parent, child, other, end } = await makePair(elsewhere);
    expect(await useKey(here, parent.key)).toBe(200);
    if (order === 'after') await end(elsewhere, parent);
    const gate = proxy.delayResponseTo(Bun.SHA256.hash(child.key, 'hex'));
    const first = useKey(here, child.key);
    await gate.made;
    if (order === 'before') await end(elsewhere, parent);
    await end(here, other); // an own change: it polls
    const second = useKey(here, child.key);
    await (await fetch(here.url)).text(); // so that it has come
    gate.release();
    expect(await second).toBe(401);
    expect(order === 'before' ? [200, 401] : [401]).toContain(await first);
    expect([await useKey(here, child.key), await useKey(here, parent.key)]).toEqual([401, 401]);
  });

  test.each(['before', 'after'])(
    'on a file, a process that stands still, its read %s the parent’s end',
    async (order) => {
      await using cluster = await startCluster(['embedded', 'embedded'], {}, [runtime, runtime]);
      const [elsewhere, here] = cluster.servers as [ServerProcess, ServerProcess];
      const { parent, child, end } = await makePair(elsewhere);
      expect(await useKey(here, parent.key)).toBe(200);
      if (order === 'before') expect(await useKey(here, child.key)).toBe(200);
      here.signal('SIGSTOP');
      const both = [useKey(here, child.key), useKey(here, child.key)];
      await end(elsewhere, parent);
      if (order === 'before') await Bun.sleep(BOUND_MS); // what it knew from before counts so long
      here.signal('SIGCONT');
      expect(await Promise.all(both)).toEqual([401, 401]);
      expect([await useKey(here, child.key), await useKey(here, parent.key)]).toEqual([401, 401]);
    },
  );
});
