// A child ends with its parent in every process within the bound, however the parent ends, wherever the store is; and what
// is left of one whose server is killed before its response.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { childEndings } from '../../lab/kills/child-endings.ts';
import { storedChildren } from '../../store/tables.ts';
import { childOf, exchange } from '../../support/children.ts';
import { userHeaders } from '../../support/client.ts';
import { callServer, startCluster, useKey } from '../../support/cluster.ts';
import { rows } from '../../support/everything.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { startProxy } from '../../support/proxy.ts';
import { startServer } from '../../support/server-process.ts';
import { startPrimary } from '../../support/template.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

setDefaultTimeout(120_000); // processes are started, on machines that do other things too

const LAG_MAX_MS = 1000; // the default

describe.each(rows(['bun', 'deno'] as const, 1))('two servers on %s', (runtime) => {
  test.each(rows(['embedded', 'replica', 'remote'] as const, 2))('of the kind %s: eleven endings', async (mode) => {
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
