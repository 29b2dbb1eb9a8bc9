// A replica beside the primary, on the real server: when its responses count, and what happens to its file.

import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Client, executeAt, openDatabase } from '../../../support/database-client.ts';
import { rows } from '../../../support/everything.ts';
import { fillKeys } from '../../../support/fill.ts';
import { diskFolder, temporaryFolder } from '../../../support/folder.ts';
import { callAll } from '../../../support/mcp.ts';
import { openFiles } from '../../../support/open-files.ts';
import { readOf, startProxy, TAKING } from '../../../support/proxy.ts';
import { runToExit, startServer } from '../../../support/server-process.ts';
import { canMount, smallDisk } from '../../../support/small-disk.ts';
import type { Sqld } from '../../../support/sqld.ts';
import { storeOn } from '../../../support/store-mode.ts';
import { startPrimary } from '../../../support/template.ts';
import { bearer, createTestApp, TEST_SECRET, type TestApp } from '../../../support/test-app.ts';
import { advanceUntil, waitFor } from '../../../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const hashOf = (key: string) => createHash('sha256').update(key).digest('hex');
const newFile = () => join(temporaryFolder(), 'replica.db');
const withReplica = (file = newFile(), url = sqld.url) =>
  storeOn({ ...sqld.env, DATABASE_URL: url, DATABASE_REPLICA_FILE: file });
const openings = async (app: TestApp) => (await app.log()).filter(({ event }) => event === 'replica opened');
const opened = (app: TestApp) => waitFor(async () => (await openings(app)).length > 0);
/** After a failure it is opened again a few seconds later. */
const openedAgain = (app: TestApp, times: number) =>
  advanceUntil(app.clock, async () => (await openings(app)).length >= times, 100);

/** A primary runs one write after the other: all at once, the last ones would wait past the store's timeout. */
async function keysOf(app: TestApp, count: number): Promise<{ id: string; key: string }[]> {
  const keys: { id: string; key: string }[] = [];
  while (keys.length < count) keys.push(await app.createKey('alice'));
  return keys;
}

/** Resolves when it has said why its replica is not in use. */
const saidWhy = (app: TestApp, reason: string) =>
  waitFor(async () => (await app.log()).some((line) => line.event === 'replica not in use' && line.reason === reason));
const MOVED = 'its file was moved, removed, replaced or cut';

const replicaState = async (app: { readonly url: string }) =>
  ((await (await fetch(`${app.url}/mcp/health`)).json()) as { store: { replica: string } }).store.replica;

/** A change that the app has seen. */
const changeOne = async (app: TestApp) =>
  app.call('delete_api_key', { keyId: (await app.createKey('alice')).id }, await bearer(app, 'alice'));

let sqld: Sqld;
beforeEach(async () => {
  sqld = await startPrimary();
});
afterEach(() => sqld.kill());

/** The file of an app that has seen a change and was closed in order, and the clock that it had. */
async function closedReplica() {
  const file = newFile();
  await using app = await createTestApp({ store: withReplica(file) });
  await changeOne(app);
  await advanceUntil(app.clock, async () => (await replicaState(app)) === 'in_use', 100);
  return { file, clock: app.clock };
}

/** The primary loses its newest change, and another one follows. */
async function loseChange(): Promise<void> {
  await executeAt(
    sqld.url,
    'UPDATE changes SET key_hash = lower(hex(randomblob(32))) WHERE seq = (SELECT max(seq) FROM changes)',
  );
}

const newestIn = async (primary: Client) =>
  Number((await primary.execute('SELECT max(seq) AS seq FROM changes')).rows[0]?.seq);

/** Whether a replica has followed up to this change. */
const isAt = async (followed: Client, seq: number) =>
  (await followed.execute('SELECT pruned_seq AS seq FROM feed')).rows[0]?.seq === seq;

/** The primary loses what came after a change, as if it was restored. */
async function loseAfter(primary: Client, seq: number): Promise<void> {
  await primary.executeMultiple(`DROP TRIGGER changes_newest_kept; DELETE FROM changes WHERE seq > ${seq};
    UPDATE sqlite_sequence SET seq = ${seq} WHERE name = 'changes'`);
}

/** Statements that reach the primary while every key is used once. */
async function statementsFor(app: TestApp, keys: { key: string }[], statements: () => number): Promise<number> {
  const before = statements();
  const responses = await Promise.all(keys.map(({ key }) => app.useKey(key)));
  expect(responses.map(({ status }) => status)).toEqual(keys.map(() => 200));
  return statements() - before;
}

/** A read of the primary may take 3 s, on a busy machine too. */
const PATIENT = { REVOCATION_LAG_MAX_MS: '4000' };

/** An app on another server, whose replica is in use. */
async function edgeOf({ url }: { readonly url: string }, { clock }: TestApp, file = newFile()): Promise<TestApp> {
  const edge = await createTestApp({ store: withReplica(file, url), env: PATIENT, clock });
  await opened(edge);
  await waitFor(async () => (await replicaState(edge)) === 'in_use');
  return edge;
}

describe('reading', () => {
  test('keys that are not in memory come from the replica once it has them, and from the primary until then', async () => {
    await using proxy = await startProxy(sqld.url);
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const keys = await keysOf(maker, 200);
    await using edge = await edgeOf(proxy, maker);
    // A busy machine may take longer for a read than the replica gets for it; then the primary is asked.
    await waitFor(async () => {
      const fresh = keys.splice(0, 1);
      expect(fresh).toHaveLength(1);
      return (await statementsFor(edge, fresh, proxy.statements)) === 0;
    });
    let fromReplica = 0;
    for (const key of keys) fromReplica += Number((await statementsFor(edge, [key], proxy.statements)) === 0);
    expect(fromReplica / keys.length).toBeGreaterThan(0.9);
    proxy.refuse(TAKING);
    const late = await keysOf(maker, 20);
    expect(await statementsFor(edge, late, proxy.statements)).toBeGreaterThan(0); // some of them together
  });

  test('of keys that come together the replica says those that it has, and the primary the others', async () => {
    await using proxy = await startProxy(sqld.url);
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const early = await keysOf(maker, 2);
    await using edge = await edgeOf(proxy, maker);
    proxy.refuse(TAKING);
    const [first, second] = early;
    const [late, unknown] = [await maker.createKey('alice'), `sk_test_${'0'.repeat(64)}`];
    const inputs = [first?.key, late.key, unknown, second?.key].map((key) => ({ _meta: { api_key: key } }));
    const results = await callAll(edge, 'whoami', inputs, {});
    expect(results.map(({ structuredContent, isError }) => (isError ? null : structuredContent.keyId))).toEqual([
      first?.id,
      late.id,
      null,
      second?.id,
    ]);
    expect(proxy.sent(hashOf(late.key))).toBe(1);
    expect(proxy.sent(hashOf(first?.key ?? ''))).toBe(0);
  });

  test('a revoked key does not come back from a replica that lags', async () => {
    await using proxy = await startProxy(sqld.url);
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const [revoked, deleted] = (await keysOf(maker, 2)) as [{ id: string; key: string }, { id: string; key: string }];
    await using edge = await edgeOf(proxy, maker);
    proxy.refuse(TAKING);
    const alice = await bearer(maker, 'alice');
    await maker.call('revoke_api_key', { keyId: revoked.id }, alice);
    await maker.call('delete_api_key', { keyId: deleted.id }, alice);
    maker.clock.advance(4001); // from here on the bound asks the edge to know
    expect((await edge.useKey(revoked.key)).status).toBe(401);
    expect((await edge.useKey(deleted.key)).status).toBe(401);
  });

  test('a leaked key ends, though a replica that lags says that it has ended', async () => {
    await using proxy = await startProxy(sqld.url);
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const { id, key } = await maker.createKey('alice');
    await maker.call('revoke_api_key', { keyId: id }, await bearer(maker, 'alice'));
    await using edge = await edgeOf(proxy, maker);
    proxy.refuse(TAKING);
    await executeAt(sqld.url, 'UPDATE api_keys SET active = 1');
    const response = await fetch(`${edge.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: key }) });
    expect(response.status).toBe(200);
    expect((await executeAt(sqld.url, 'SELECT active FROM api_keys'))[0]?.active).toBe(0);
  });

  test('a replica that follows more often than its process polls is read, after one key that is not', async () => {
    await using proxy = await startProxy(sqld.url);
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const keys = await keysOf(maker, 100);
    const env = { REVOCATION_LAG_MAX_MS: '60000' };
    const file = newFile();
    await using edge = await createTestApp({ store: withReplica(file, proxy.url), env, clock: maker.clock });
    await opened(edge);
    await waitFor(async () => (await replicaState(edge)) === 'in_use');
    const isFromReplica = async () => (await statementsFor(edge, keys.splice(0, 1), proxy.statements)) === 0;
    await waitFor(isFromReplica);
    await changeOne(maker);
    using primary = openDatabase(sqld.url);
    const changed = await newestIn(primary);
    using followed = openDatabase(`file:${file}`);
    maker.clock.advance(1500); // it follows; its process has polled, and does so again after 15 s
    await waitFor(() => isAt(followed, changed));
    await waitFor(isFromReplica);
    expect(keys.length).toBeGreaterThan(50);
    let fromReplica = 0;
    for (const key of keys) fromReplica += Number((await statementsFor(edge, [key], proxy.statements)) === 0);
    expect(fromReplica / keys.length).toBeGreaterThan(0.9);
  });

  test('what a replica says is not kept once a poll has seen another history', async () => {
    await using proxy = await startProxy(sqld.url);
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const [{ clock }, { id, key }, spare] = [maker, await maker.createKey('bob'), await keysOf(maker, 50)];
    await changeOne(maker);
    using primary = openDatabase(sqld.url);
    const kept = await newestIn(primary);
    const env = { REVOCATION_LAG_MAX_MS: '60000' };
    await using edge = await createTestApp({ store: withReplica(newFile(), proxy.url), env, clock });
    await opened(edge);
    const isFromReplica = async () => (await statementsFor(edge, spare.splice(0, 1), proxy.statements)) === 0;
    await waitFor(isFromReplica);
    await changeOne(edge);
    await changeOne(edge);
    clock.advance(1500); // it follows
    await waitFor(isFromReplica);
    await loseAfter(primary, kept);
    await maker.call('revoke_api_key', { keyId: id }, await bearer(maker, 'bob'));
    const [first, second] = ['0', '1'].map((digit) => `sk_test_${digit.repeat(64)}`) as [string, string];
    const before = proxy.delayResponseTo(hashOf(first));
    const called = [edge.useKey(first)];
    await before.made;
    called.push(edge.useKey(key), edge.useKey(second)); // wait for the first, as they come from one address
    await replicaState(edge);
    const gate = proxy.delayResponseTo(hashOf(second));
    before.release();
    await gate.made;
    expect(proxy.sent(hashOf(key))).toBe(0);
    await changeOne(edge); // polls
    gate.release();
    expect((await Promise.all(called)).map(({ status }) => status)).toEqual([401, 200, 401]);
    expect((await edge.useKey(key)).status).toBe(401);
  });

  test('a replica that is ahead of its process says nothing, as the primary may have lost what it holds', async () => {
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const [{ clock }, { id, key }, file] = [maker, await maker.createKey('alice'), newFile()];
    await changeOne(maker);
    await using edge = await edgeOf(sqld, maker, file);
    using primary = openDatabase(sqld.url);
    using followed = openDatabase(`file:${file}`);
    const kept = await newestIn(primary);
    await changeOne(maker);
    await changeOne(maker);
    const lost = await newestIn(primary);
    clock.advance(4001); // nobody uses the edge, so it doesn't poll, but its replica does
    await advanceUntil(clock, () => isAt(followed, lost), 100);
    await loseAfter(primary, kept);
    await maker.call('revoke_api_key', { keyId: id }, await bearer(maker, 'alice'));
    expect([await newestIn(primary), await isAt(followed, lost)]).toEqual([kept + 1, true]);
    expect((await edge.useKey(key)).status).toBe(401);
  });

  test('keys made on one server work on another at once, though its replica lags', async () => {
    await using proxy = await startProxy(sqld.url);
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    await using edge = await edgeOf(proxy, maker);
    proxy.refuse(TAKING);
    for (let made = 0; made < 200; made += 1) {
      const { key } = await maker.createKey('alice');
      expect((await edge.useKey(key)).status).toBe(200);
    }
  });
});

describe('the file', () => {
  test('is used again after an orderly stop, and after a kill', async () => {
    const env = { JWT_SECRET: TEST_SECRET, ...sqld.env, DATABASE_REPLICA_FILE: newFile() };
    const kept = async (end: 'stop' | 'kill') => {
      await using server = await startServer({ env });
      await waitFor(() => server.stdout().includes('replica opened'));
      const line =
        server
          .stdout()
          .split('\n')
          .find((text) => text.includes('replica opened')) ?? '';
      await server[end]();
      return (JSON.parse(line) as { kept: boolean }).kept;
    };
    expect(await kept('stop')).toBe(false);
    expect(await kept('stop')).toBe(true);
    expect(await kept('kill')).toBe(true);
    expect(await kept('stop')).toBe(true);
  });

  test('the replica file and all beside it are for their owner alone, while it is open and after', async () => {
    process.umask(0o022);
    const file = newFile();
    const app = await createTestApp({ store: withReplica(file) });
    await opened(app);
    const modes = () =>
      readdirSync(dirname(file)).map((name) => [name, statSync(join(dirname(file), name)).mode & 0o777]);
    expect(modes()).toContainEqual(['replica.db-wal', 0o600]);
    expect(modes()).toContainEqual(['replica.db-owner', 0o600]);
    const loose = () => modes().filter(([, mode]) => mode !== 0o600);
    expect(loose()).toEqual([]);
    await app.close();
    expect(loose()).toEqual([]);
  });

  const damages: Record<string, (file: string) => void> = {
    'cut off': (file) => truncateSync(file, 3000),
    'full of something else': (file) => writeFileSync(file, 'no database '.repeat(statSync(file).size / 12 + 1)),
  };
  test.each(Object.entries(damages))('%s is made anew, and keys work throughout', async (_, damage) => {
    const file = newFile();
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const { key } = await maker.createKey('alice');
    const first = await createTestApp({ store: withReplica(file), clock: maker.clock });
    await opened(first);
    await first.close();
    damage(file);
    await using second = await createTestApp({ store: withReplica(file), clock: first.clock });
    expect((await second.useKey(key)).status).toBe(200);
    await opened(second);
    expect((await openings(second)).map(({ kept }) => kept)).toEqual([false]);
    const { key: next } = await second.createKey('alice');
    expect((await second.useKey(next)).status).toBe(200);
    expect(readdirSync(dirname(file)).sort()).toEqual(
      ['', '-owner', '-shm', '-wal'].map((part) => `replica.db${part}`),
    );
  });

  test('a replica file that holds what the primary has lost is rebuilt', async () => {
    const { file, clock } = await closedReplica();
    await loseChange();
    await using second = await createTestApp({ store: withReplica(file), clock });
    await openedAgain(second, 1);
    await saidWhy(second, 'it is of another database, or holds what its primary has lost');
    expect((await openings(second)).map(({ kept }) => kept)).toEqual([false]);
  });

  test('nothing is taken into a replica file before it was compared with its primary', async () => {
    await using proxy = await startProxy(sqld.url);
    const { file, clock } = await closedReplica();
    await using second = await createTestApp({ store: withReplica(file, proxy.url), clock });
    await openedAgain(second, 1);
    await waitFor(() => proxy.sent(TAKING) > 0);
    const compared = proxy.requests.findIndex((request) => request.includes('c.seq >= ?1'));
    expect(compared).toBeGreaterThanOrEqual(0);
    expect(proxy.requests.findIndex((request) => request.includes(TAKING))).toBeGreaterThan(compared);
  });

  test('a replica file stays when its primary is away while they are compared', async () => {
    await using proxy = await startProxy(sqld.url);
    const { file, clock } = await closedReplica();
    proxy.refuse('c.seq >= ?1');
    await using second = await createTestApp({ store: withReplica(file, proxy.url), clock });
    await saidWhy(second, 'the primary is away');
    proxy.refuse(null);
    await openedAgain(second, 1);
    expect((await openings(second)).map(({ kept }) => kept)).toEqual([true]);
    const { key } = await second.createKey('alice');
    expect((await second.useKey(key)).status).toBe(200);
  });

  test('is made anew while it is in use, too, when the primary is seen to have lost something', async () => {
    await using app = await createTestApp({ store: withReplica() });
    await opened(app);
    await changeOne(app);
    await loseChange();
    await changeOne(app); // polls
    await openedAgain(app, 2);
    await saidWhy(app, 'the primary was replaced');
  });

  test('a replica file that is begun anew while another process copies into it has all rows in the end', async () => {
    await using toFirst = await startProxy(sqld.url);
    await using toSecond = await startProxy(sqld.url);
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    const [{ clock }, { key }, file] = [maker, await maker.createKey('bob'), newFile()];
    await executeAt(sqld.url, "INSERT INTO blocked_owners (owner) VALUES ('bob')");
    await using first = await createTestApp({ store: withReplica(file, toFirst.url), clock });
    await opened(first);
    await using second = await createTestApp({ store: withReplica(file, toSecond.url), clock });
    await opened(second);
    for (const app of [first, second]) await waitFor(async () => (await replicaState(app)) === 'in_use');
    await loseChange();
    clock.advance(500); // the next look at their health polls
    const [copied, begun] = [
      toFirst.delayResponseTo(readOf('owners')),
      toSecond.delayResponseTo(readOf('blocked_owners')),
    ];
    await replicaState(first);
    await copied.made;
    await replicaState(second);
    await begun.made;
    copied.release();
    await waitFor(async () => (await replicaState(first)) === 'in_use');
    expect((await first.useKey(key)).status).toBe(401);
    begun.release();
  });

  test('a replica file of another program is refused at the start and stays as it was', async () => {
    const file = newFile();
    writeFileSync(file, 'precious');
    const env = { JWT_SECRET: TEST_SECRET, ...sqld.env, DATABASE_REPLICA_FILE: file };
    const { code, stderr } = await runToExit({ env });
    expect([code, stderr]).toEqual([1, expect.stringContaining('DATABASE_REPLICA_FILE: expected a new file')]);
    expect(readFileSync(file, 'utf8')).toBe('precious');
  });

  test.skipIf(!canMount())('while its disk is full, each try to copy closes what it has opened', async () => {
    using disk = smallDisk();
    using db = openDatabase(sqld.url);
    await fillKeys(db, 6000);
    await using proxy = await startProxy(sqld.url);
    await using app = await createTestApp({ store: withReplica(join(disk.folder, 'replica.db'), proxy.url) });
    await waitFor(async () => (await app.log()).some(({ event }) => event === 'replica not in use'));
    const tries = proxy.sent(TAKING);
    await advanceUntil(app.clock, () => proxy.sent(TAKING) > tries + 10, 1000);
    expect(openFiles(process.pid).filter((file) => file.startsWith(disk.folder)).length).toBeLessThan(10);
  });

  test('a replica file that is no file is refused at the start, and not replaced', async () => {
    const pipe = newFile();
    Bun.spawnSync(['mkfifo', pipe]);
    const env = { JWT_SECRET: TEST_SECRET, ...sqld.env, DATABASE_REPLICA_FILE: pipe };
    const { code, stderr } = await runToExit({ env });
    expect([code, stderr]).toEqual([1, expect.stringContaining('DATABASE_REPLICA_FILE: expected a new file')]);
    expect(statSync(pipe).isFIFO()).toBe(true);
  });

  test('a replica file that another process makes stays as it is until that has ended', async () => {
    const file = newFile();
    const [before, owner] = [openDatabase(`file:${file}`), openDatabase(`file:${file}-owner`)];
    await before.execute('CREATE TABLE half_made (page TEXT)');
    await owner.execute('BEGIN IMMEDIATE');
    const bytes = readFileSync(file);
    await using app = await createTestApp({ store: withReplica(file) });
    await saidWhy(app, 'another process makes it');
    const { key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    expect(readFileSync(file)).toEqual(bytes);
    before.close();
    owner.close();
    await openedAgain(app, 1);
  });

  test('is followed by two processes, on Bun and Deno, and by the one that is left', async () => {
    const file = join(diskFolder(), 'replica.db'); // Deno writes to no other
    const env = { JWT_SECRET: TEST_SECRET, ...sqld.env, DATABASE_REPLICA_FILE: file };
    const inUse = async ({ url }: { url: string }) => (await replicaState({ url })) === 'in_use';
    await using first = await startServer({ env });
    await using second = await startServer({ env, runtime: 'deno' });
    await waitFor(async () => (await inUse(first)) && (await inUse(second)));
    await first.kill();
    await using maker = await createTestApp({ store: storeOn(sqld.env) });
    await changeOne(maker);
    await waitFor(async () => (await maker.createKey('alice')) !== null && (await inUse(second)));
  });

  test.each(rows(['bun', 'deno'] as const, 1))(
    'holds all keys of many, which a thread has written, on %s',
    async (runtime) => {
      using primary = openDatabase(sqld.url);
      await fillKeys(primary, 1001);
      const file = join(diskFolder(), 'replica.db');
      const env = { JWT_SECRET: TEST_SECRET, ...sqld.env, DATABASE_REPLICA_FILE: file };
      await using server = await startServer({ env, runtime });
      await waitFor(async () => (await replicaState(server)) === 'in_use');
      const hashes = 'SELECT group_concat(key_hash) AS hashes FROM (SELECT key_hash FROM api_keys ORDER BY row)';
      expect(await executeAt(`file:${file}`, hashes)).toEqual(
        (await primary.execute(hashes)).rows.map((row) => ({ ...row })),
      );
      expect(await server.stop()).toBe(0);
    },
  );

  test.each(rows([2, 1], 1))(
    'a replica file that is removed while %d processes use it is made anew, once',
    async (processes) => {
      const file = newFile();
      await using first = await createTestApp({ store: withReplica(file) });
      await opened(first);
      const { clock } = first;
      await using second = processes === 1 ? null : await createTestApp({ store: withReplica(file), clock });
      const apps = second === null ? [first] : [first, second];
      await Promise.all(apps.map(opened));
      for (const part of ['', '-wal', '-shm']) rmSync(file + part);
      for (const app of apps) await openedAgain(app, 2);
      for (const app of apps) await saidWhy(app, MOVED);
      const { ino } = statSync(file);
      // What only a thread writes: it opens the file anew.
      await changeOne(first);
      await loseChange();
      await changeOne(first); // polls
      await openedAgain(first, 3);
      for (const app of apps) await advanceUntil(clock, async () => (await replicaState(app)) === 'in_use', 100);
      expect(statSync(file).ino).toBe(ino);
    },
  );

  test('a replica file that is cut to nothing while it is in use is made anew', async () => {
    const file = newFile();
    await using app = await createTestApp({ store: withReplica(file) });
    await opened(app);
    truncateSync(file);
    using primary = openDatabase(sqld.url);
    await fillKeys(primary, 251); // a page, which a thread writes
    await openedAgain(app, 2);
    await saidWhy(app, 'its file is damaged');
  });

  test('a replica whose write-ahead log is emptied while it is in use is made anew', async () => {
    const file = newFile();
    await using app = await createTestApp({ store: withReplica(file) });
    await opened(app);
    truncateSync(`${file}-wal`);
    await openedAgain(app, 2);
    await saidWhy(app, MOVED);
    expect(await executeAt(`file:${file}`, 'PRAGMA quick_check')).toEqual([{ quick_check: 'ok' }]);
  });

  test('a replica file in whose place another version has put its own stays, and this one goes on with the one it has', async () => {
    const file = newFile();
    await using app = await createTestApp({ store: withReplica(file) });
    await opened(app);
    for (const part of ['', '-wal', '-shm']) rmSync(file + part);
    await executeAt(`file:${file}`, 'CREATE TABLE replica_of_999 (mark TEXT)');
    const bytes = readFileSync(file);
    using primary = openDatabase(sqld.url);
    await fillKeys(primary, 251); // a page, which a thread writes where there is one
    await changeOne(app); // polls
    await advanceUntil(app.clock, async () => (await replicaState(app)) === 'in_use', 100);
    await loseChange();
    await changeOne(app);
    await openedAgain(app, 2);
    expect(readFileSync(file)).toEqual(bytes);
    expect((await app.useKey((await app.createKey('alice')).key)).status).toBe(200);
  });

  test('a server works without a replica file that it cannot write', async () => {
    const file = newFile();
    mkdirSync(`${file}-wal`);
    await using app = await createTestApp({ store: withReplica(file) });
    await waitFor(async () => (await app.log()).some(({ event }) => event === 'replica not in use'));
    const { key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
  });
});

test('a replica has the settings of owners that were there before, and follows those that change', async () => {
  const db = openDatabase(sqld.url);
  const set = (owner: string, requests: number) =>
    db.execute({
      sql: `INSERT INTO owners (owner, limit_requests, limit_window_s) VALUES (?1, ?2, 3600)
ON CONFLICT DO UPDATE SET limit_requests = ?2`,
      args: [owner, requests],
    });
  await set('alice', 5);
  const file = newFile();
  await using app = await createTestApp({ store: withReplica(file) });
  await opened(app);
  const settings = async () =>
    (await executeAt(`file:${file}`, 'SELECT owner, limit_requests AS n FROM owners ORDER BY owner')).map(
      ({ owner, n }) => `${owner} ${n}`,
    );
  expect(await settings()).toEqual(['alice 5']);
  await set('alice', 6);
  await set('bob', 7);
  await advanceUntil(app.clock, async () => (await settings()).join() === 'alice 6,bob 7', 100);
  await db.execute("UPDATE owners SET limit_requests = NULL, limit_window_s = NULL WHERE owner = 'alice'");
  await advanceUntil(app.clock, async () => (await settings()).join() === 'bob 7', 100);
  db.close();
});

test('a replica follows on behind a time that was typed beyond 2^53', async () => {
  await using app = await createTestApp({ store: withReplica() });
  await opened(app);
  await executeAt(sqld.url, "INSERT INTO blocked_owners (owner, blocked_at_ms) VALUES ('bob', 1796000000000000000)");
  await changeOne(app);
  await advanceUntil(app.clock, async () => (await replicaState(app)) === 'in_use', 100);
});

test('a replica that was closed follows no more', async () => {
  await using proxy = await startProxy(sqld.url);
  const app = await createTestApp({ store: withReplica(undefined, proxy.url) });
  await opened(app);
  const first = proxy.sent(TAKING);
  await advanceUntil(app.clock, () => proxy.sent(TAKING) > first, 100);
  await app.close();
  const last = proxy.sent(TAKING);
  app.clock.advance(10_000);
  await using other = await createTestApp({ store: withReplica() });
  await opened(other);
  expect(proxy.sent(TAKING)).toBe(last);
});

test('a replica that is closed while it copies owners copies no more of them, and says nothing of an outage', async () => {
  await using proxy = await startProxy(sqld.url, { delayMs: 50 });
  await executeAt(
    sqld.url,
    `INSERT INTO owners (owner, keys_max)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT 'owner ' || i, 5 FROM n`,
  );
  const app = await createTestApp({ store: withReplica(undefined, proxy.url) });
  const pages = () => proxy.sent(readOf('owners'));
  await waitFor(() => pages() > 1);
  await app.close();
  expect((await app.log()).map(({ event }) => event)).not.toContain('replica not in use');
  expect(pages()).toBeLessThan(10); // of 20
});

describe('the primary', () => {
  test('a server starts without its primary, and opens the replica when the primary is back', async () => {
    await sqld.kill();
    await using app = await createTestApp({ store: withReplica() });
    expect((await fetch(`${app.url}/mcp/health`)).status).toBe(503);
    await sqld.start();
    await advanceUntil(app.clock, async () => (await fetch(`${app.url}/mcp/health`)).ok);
    const health = await fetch(`${app.url}/mcp/health`);
    expect(((await health.json()) as { store: object }).store).toMatchObject({ mode: 'replica', ok: true });
    await opened(app);
  });

  test('a replica whose primary is away is not trusted past the bound', async () => {
    await using app = await createTestApp({ store: withReplica() });
    await opened(app);
    const { key } = await app.createKey('alice');
    await sqld.kill();
    app.clock.advance(1001);
    expect((await app.useKey(key)).status).toBe(503);
  });

  test('after the primary is replaced by an empty one no old key is accepted, and the replica is rebuilt', async () => {
    await using app = await createTestApp({ store: withReplica() });
    await opened(app);
    const { key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    await sqld.kill();
    sqld.wipe();
    await sqld.start();
    app.clock.advance(1001);
    await waitFor(async () => (await app.useKey(key)).status === 401);
    const { key: next } = await app.createKey('alice');
    expect((await app.useKey(next)).status).toBe(200);
    await openedAgain(app, 2);
    expect((await app.useKey(key)).status).toBe(401);
    expect((await app.useKey(next)).status).toBe(200);
  });
});
