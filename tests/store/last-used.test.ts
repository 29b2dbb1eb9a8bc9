// lastUsedAt from several servers on one database, and while it is away.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { executeAt } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { STORE_MODES, startStore, storeOn } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import { bearer, COUNTED, createTestApp, type TestApp } from '../support/test-app.ts';
import { advanceUntil, waitFor } from '../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const lastUsedAt = async (app: TestApp) =>
  (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body.keys[0].lastUsedAt as number | undefined;

describe.each(rows(STORE_MODES, 1))('on a store that is %s', (mode) => {
  test('the later of two uses stays, whichever server writes last', async () => {
    await using store = await startStore(mode);
    await using reader = await createTestApp({ store });
    const late = await createTestApp({ store });
    const early = await createTestApp({ store });
    const { key } = await reader.createKey('alice');
    late.clock.advance(500);
    await early.useKey(key);
    await late.useKey(key);
    expect(await lastUsedAt(reader)).toBeUndefined(); // known only where it was used, until it is written
    expect(await lastUsedAt(late)).toBe(late.clock.nowMs());
    await late.close(); // writes
    await early.close();
    expect(await lastUsedAt(reader)).toBe(late.clock.nowMs());
  });

  test('a new key does not inherit the last use of a deleted one', async () => {
    await using store = await startStore(mode);
    const app = await createTestApp({ store });
    const { id, key } = await app.createKey('alice');
    await app.useKey(key);
    await app.close(); // writes
    await using again = await createTestApp({ store });
    expect(await lastUsedAt(again)).toBeNumber();
    await again.call('delete_api_key', { keyId: id }, await bearer(again, 'alice'));
    await again.createKey('alice');
    expect(await lastUsedAt(again)).toBeUndefined();
  });

  test('the later of two uses is listed, though a server of the first version wrote it', async () => {
    await using store = await startStore(mode);
    const app = await createTestApp({ store });
    const { key } = await app.createKey('alice');
    await app.useKey(key);
    await app.close(); // writes
    const laterMs = app.clock.nowMs() + 1;
    await executeAt(store.env().DATABASE_URL ?? '', {
      sql: 'UPDATE api_keys SET last_used_at_ms = ?',
      args: [laterMs],
    });
    await using again = await createTestApp({ store });
    expect(await lastUsedAt(again)).toBe(laterMs);
  });

  test('a use is in the database within 5 s', async () => {
    await using store = await startStore(mode);
    await using app = await createTestApp({ store });
    await using reader = await createTestApp({ store });
    const { key } = await app.createKey('alice');
    await app.useKey(key);
    const usedAtMs = app.clock.nowMs();
    app.clock.advance(3000);
    expect(await waitFor(async () => (await lastUsedAt(reader)) !== undefined)).toBeLessThan(2000);
    expect(await lastUsedAt(reader)).toBe(usedAtMs);
  });
});

test('a use is kept while the database is away, and written when it is back', async () => {
  await using sqld = await startPrimary();
  const app = await createTestApp({ store: storeOn(sqld.env), env: COUNTED });
  await using reader = await createTestApp({ store: storeOn(sqld.env) });
  const { key } = await app.createKey('alice');
  await app.useKey(key);
  const usedAtMs = app.clock.nowMs();
  await sqld.kill();
  app.clock.advance(3000);
  const kept = async () => (await app.log()).filter(({ event }) => event === 'uses kept for later').length;
  await waitFor(async () => (await kept()) > 0);
  await advanceUntil(app.clock, async () => (await app.storeCalls('add_uses')) > 2, 500);
  expect(await kept()).toBe(1); // it is one outage
  await sqld.start();
  await app.close();
  expect(await lastUsedAt(reader)).toBe(usedAtMs);
});
