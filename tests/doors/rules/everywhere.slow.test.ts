// Rules on each kind of store, between two servers, and on Deno; tokens of a rule, and their children, end within the bound
// at every process and in each place of a key, whoever ends them.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { LAG_MAX_MS, ruleEndings, serviceIn } from '../../lab/kills/rule-endings.ts';
import { served, startCluster } from '../../support/cluster.ts';
import { databaseOf, executeAt } from '../../support/database-client.ts';
import { rows } from '../../support/everything.ts';
import { diskFolder, temporaryFolder } from '../../support/folder.ts';
import { createIssuer, type Issuer } from '../../support/issuer.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { type Runtime, startServer } from '../../support/server-process.ts';
import { STORE_MODES, startStore } from '../../support/store-mode.ts';
import { createTestApp, TEST_SECRET } from '../../support/test-app.ts';
import { refusedWithin } from '../../support/wait-for.ts';
import { SUBJECT, startWorkload } from './workload.ts';

test.each(['embedded', 'remote', 'replica'] as const)(
  '%s: a rule that one server loses, the other refuses',
  async (mode) => {
    await using store = await startStore(mode, temporaryFolder());
    await using workload = await startWorkload({ store });
    const { app, ruleId } = workload;
    await using other = await createTestApp({ store, env: { PUBLIC_URL: workload.audience } });
    const token = await workload.token();
    expect([await workload.use(token), (await other.useKey(token)).status]).toEqual([200, 200]);
    await app.keys('rule', 'remove', ruleId);
    for (const one of [app, other]) one.clock.advance(1000);
    expect([await workload.use(token), (await other.useKey(token)).status]).toEqual([401, 401]);
    await workload.addRule();
    for (const one of [app, other]) one.clock.advance(1000);
    expect([await workload.use(token), (await other.useKey(token)).status]).toEqual([200, 200]);
  },
);

/** A server on a file, with a rule of this issuer. */
async function startWithRule(runtime: Runtime, issuer: Issuer) {
  const env = {
    DATABASE_URL: `file:${diskFolder()}/keys.db`,
    JWT_SECRET: TEST_SECRET,
    PUBLIC_URL: 'http://localhost:1',
  };
  const server = await startServer({ runtime, env });
  const keys = async (...args: string[]) => (await keysCommand(env, args)).stdout.trim();
  const id = await keys('create', '--user', 'acme', '--name', 'n', '--scope', 'read', '--no-secret');
  const rule = await keys('rule', 'add', id, '--issuer', issuer.url, '--subject', SUBJECT);
  const nowS = Math.floor(Date.now() / 1000);
  return Object.assign(server, {
    token: (jti: string) => issuer.token({ sub: SUBJECT, aud: env.PUBLIC_URL, iat: nowS, exp: nowS + 300, jti }),
    use: (token: string) => fetch(`${server.url}/tools/get_data`, { method: 'POST', headers: { 'x-api-key': token } }),
    endRule: () => keys('rule', 'remove', rule),
  });
}

test('a server on Deno takes a workload’s token, and refuses it within the bound of its rule’s end', async () => {
  await using issuer = await createIssuer();
  await using server = await startWithRule('deno', issuer);
  const token = await server.token('a');
  const use = async () => (await server.use(token)).status;
  expect(await use()).toBe(200);
  await server.endRule();
  await refusedWithin(1000, use);
});

test('keys doctor has no doubt about an issuer that responds, however many others hang', async () => {
  await using workload = await startWorkload();
  const { app, ruleId } = workload;
  await using hung = await createIssuer();
  for (const at of Array(6).keys()) {
    const path = `/.well-known/oauth-authorization-server/${at}`;
    hung.overrides.set(path, () => new Promise(() => {}));
    await executeAt(databaseOf(app), {
      sql: `INSERT INTO rules (id, key_id, hash, issuer, subject, audiences, claims, created_at_ms)
SELECT ?1, key_id, ?1, ?2, subject, audiences, claims, 0 FROM rules WHERE row = 1`,
      args: [`typed ${at}`, `${hung.url}/${at}`],
    });
  }
  await executeAt(databaseOf(app), 'UPDATE rules SET row = row + 100 WHERE row = 1'); // the last
  const { stdout } = await keysCommand({ DATABASE_URL: databaseOf(app), PUBLIC_URL: workload.audience }, ['doctor']);
  expect(stdout.match(/typed \d of key \w+: the key set of \S+ can't be fetched/g)).toHaveLength(6);
  expect(stdout).not.toContain(ruleId);
}, 180_000);

setDefaultTimeout(300_000); // processes are started, on machines that do other things too

const SERVERS = (['bun', 'deno'] as const).flatMap((runtime) => STORE_MODES.map((mode) => [runtime, mode] as const));

test.each(rows(SERVERS, 1))('two servers on %s, of the kind %s: ten endings', async (runtime, mode) => {
  await using cluster = await startCluster([mode, mode], {}, [runtime, runtime]);
  for (const { how, lastSuccessMs } of await ruleEndings(cluster, await serviceIn(cluster), 1)) {
    expect(lastSuccessMs, how).toBeGreaterThan(-3 * LAG_MAX_MS); // it did not end long before
    expect(lastSuccessMs, how).toBeLessThan(LAG_MAX_MS);
  }
});

// race.test.ts with a real process on a file, which stands still while it waits for the key set of an issuer: between the
// read of the rules and that of the key.

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const BOUND_MS = 1000; // the default

test.each(rows(['bun', 'deno'] as const, 1))(
  '%s: a rule ends while the process stands still: its tokens are refused',
  async (runtime) => {
    await using issuer = await createIssuer();
    const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    issuer.overrides.set('/jwks', async () => {
      asked.resolve();
      await answer.promise;
      return Response.json({ keys: issuer.keys.map(({ jwk }) => jwk) });
    });
    await using server = await startWithRule(runtime, issuer);
    const tokens = [await server.token('a'), await server.token('b')];
    const waiting = tokens.map(server.use);
    await asked.promise;
    server.signal('SIGSTOP');
    await server.endRule();
    await Bun.sleep(BOUND_MS); // what it read before counts so long
    answer.resolve();
    server.signal('SIGCONT');
    for (const { status } of await Promise.all(waiting)) expect([401, 503]).toContain(status);
    for (const one of tokens) expect((await served(() => server.use(one))).status).toBe(401);
  },
);
