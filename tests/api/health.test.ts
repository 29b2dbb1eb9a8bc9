// GET /mcp/health.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/folder.ts';
import { startProxy, TAKING } from '../support/proxy.ts';
import { storeOn } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import { bearer, createTestApp, readResponse, type TestApp } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const healthOf = async ({ url }: { url: string }) => readResponse(await fetch(`${url}/mcp/health`));

test('while the store responds: 200 and ok; its uptime counts the time that the machine slept', async () => {
  await using app = await createTestApp();
  app.clock.advance(61_500);
  const { status, headers, body } = await healthOf(app);
  expect(status).toBe(200);
  expect(headers.get('content-type')).toBe('application/json');
  expect(headers.get('cache-control')).toBe('no-store');
  expect(body).toMatchObject({
    status: 'ok',
    name: 'mcp-key-server',
    version: '1.0.0',
    uptimeSeconds: 61,
    store: { mode: 'embedded', ok: true, writable: true, lagMs: expect.any(Number) },
    sessions: 0,
  });
  expect(body.protocolVersions).toBeArray();
  app.clock.sleep(3_600_000);
  expect((await healthOf(app)).body.uptimeSeconds).toBe(3661);
});

test('names the process, as the ids of its requests do', async () => {
  await using app = await createTestApp();
  await using other = await createTestApp();
  const instanceOf = async (app: TestApp) => (await healthOf(app)).body.instance as string;
  const instance = await instanceOf(app);
  expect(instance).toMatch(/^[0-9a-f]{12}$/);
  expect(await instanceOf(app)).toBe(instance);
  expect(await instanceOf(other)).not.toBe(instance);
  expect((await app.call('get_data')).body.requestId).toStartWith(`${instance}-`);
});

test('says what a replica does, if there is one', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  const env = { ...sqld.env, DATABASE_URL: proxy.url, DATABASE_REPLICA_FILE: join(temporaryFolder(), 'replica.db') };
  const storeOf = async (app: TestApp) => (await healthOf(app)).body.store;
  await using without = await createTestApp({ store: storeOn(sqld.env) });
  await using app = await createTestApp({ store: storeOn(env) });
  await waitFor(async () => (await storeOf(app)).replica === 'in_use');
  expect(await storeOf(app)).toEqual({
    mode: 'replica',
    ok: true,
    writable: true,
    lagMs: expect.any(Number),
    replica: 'in_use',
  });
  expect(await storeOf(without)).toEqual({ mode: 'remote', ok: true, writable: true, lagMs: expect.any(Number) });
  const away = { ...env, DATABASE_REPLICA_FILE: join(temporaryFolder(), 'replica.db') };
  mkdirSync(`${away.DATABASE_REPLICA_FILE}-wal`);
  await using second = await createTestApp({ store: storeOn(away) }); // it can't make its file
  expect(await storeOf(second)).toMatchObject({ mode: 'replica', replica: 'not_in_use' });
  proxy.refuse(TAKING);
  const { id } = await app.createKey('alice');
  await app.call('delete_api_key', { keyId: id }, await bearer(app, 'alice'));
  expect(await storeOf(app)).toMatchObject({ ok: true, replica: 'catching_up' });
});

test('while it does not: 503 and unavailable, and GET / still responds', async () => {
  await using app = await createTestApp();
  await app.loseStore();
  const { status, headers, body } = await healthOf(app);
  expect(status).toBe(503);
  expect(headers.get('retry-after')).toBe('1');
  expect(body).toMatchObject({ status: 'unavailable', store: { ok: false } });
  expect((await fetch(app.url)).status).toBe(200);
});

describe('what asking costs the database', () => {
  /** Of a lag below this a question to the store has 3 s: it is lost to no pause of a busy machine. */
  const LAG_MAX_MS = 4000;
  /** A process in use polls this often. */
  const POLL_EVERY_MS = LAG_MAX_MS / 4;
  const RETRY_EVERY_MS = LAG_MAX_MS / 16;
  const PATIENT = { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) };

  const statusOf = async (app: TestApp) => (await healthOf(app)).status;

  async function during(count: () => number, ask: () => Promise<unknown>): Promise<number> {
    const before = count();
    await ask();
    return count() - before;
  }

  test('one statement for each interval of polls, however many ask together or in turn', async () => {
    await using sqld = await startPrimary();
    await using proxy = await startProxy(sqld.url);
    await using app = await createTestApp({ env: PATIENT, store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }) });
    const askOften = async () => {
      const together = await Promise.all(Array.from({ length: 50 }, () => statusOf(app)));
      expect(together).toEqual(Array.from({ length: 50 }, () => 200));
      for (let turn = 0; turn < 50; turn += 1) expect(await statusOf(app)).toBe(200);
    };
    await statusOf(app);
    expect(await during(proxy.statements, askOften)).toBe(0);
    app.clock.advance(POLL_EVERY_MS);
    expect(await during(proxy.statements, askOften)).toBe(0);
    app.clock.advance(1);
    expect(await during(proxy.statements, askOften)).toBe(1);
    app.clock.sleep(POLL_EVERY_MS + 1);
    expect(await during(proxy.statements, askOften)).toBe(1);
  });

  test('an outage is noticed after one, and its end by one that is as soon, however many ask before', async () => {
    await using sqld = await startPrimary();
    await using app = await createTestApp({ env: PATIENT, store: storeOn(sqld.env) });
    expect(await statusOf(app)).toBe(200);
    await sqld.kill();
    app.clock.advance(POLL_EVERY_MS + 1);
    expect(await statusOf(app)).toBe(503);
    await sqld.start();
    app.clock.advance(RETRY_EVERY_MS - 1);
    for (let asked = 0; asked < 50; asked += 1) expect(await statusOf(app)).toBe(503); // the database would say otherwise
    app.clock.advance(1);
    expect(await statusOf(app)).toBe(200);
  });
});
