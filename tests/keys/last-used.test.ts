// lastUsedAt is exact at once in the process, in the database within 5 s, and flushed by an orderly stop.

import { expect, test } from 'bun:test';
import { systemClock } from '../../src/clock.ts';
import { createLastUsed } from '../../src/keys/last-used.ts';
import type { KeyStore } from '../../src/keys/record.ts';
import { createLog } from '../../src/log.ts';
import { err, ok } from '../../src/problem.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';

const lastUsedAt = async (app: TestApp, id: string) => {
  const { body } = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  return body.keys.find((key: { id: string }) => key.id === id)?.lastUsedAt;
};

test('another process on the file sees a use within 5 s, and nothing is written for it before', async () => {
  await using first = await createTestApp();
  await using second = await createTestApp({ folder: first.folder, clock: first.clock });
  const { id, key } = await first.createKey('alice');
  await first.useKey(key);
  const usedAtMs = first.clock.nowMs();
  expect(await lastUsedAt(first, id)).toBe(usedAtMs);
  expect(await lastUsedAt(second, id)).toBeUndefined();
  const deadlineMs = performance.now() + 5000;
  while ((await lastUsedAt(second, id)) === undefined && performance.now() < deadlineMs) await Bun.sleep(100);
  expect(await lastUsedAt(second, id)).toBe(usedAtMs);
}, 10_000);

test('an orderly stop writes what is pending', async () => {
  const first = await createTestApp();
  const { id, key } = await first.createKey('alice');
  await first.useKey(key);
  await first.close();
  await using second = await createTestApp({ folder: first.folder, clock: first.clock });
  expect(await lastUsedAt(second, id)).toBe(first.clock.nowMs());
});

test('of two processes the later use stays, whichever writes last', async () => {
  await using reader = await createTestApp();
  const { id, key } = await reader.createKey('alice');
  const early = await createTestApp({ folder: reader.folder, clock: reader.clock });
  const late = await createTestApp({ folder: reader.folder, clock: reader.clock });
  await early.useKey(key);
  reader.clock.advance(1000);
  await late.useKey(key);
  await late.close();
  await early.close();
  expect(await lastUsedAt(reader, id)).toBe(reader.clock.nowMs());
});

test('uses are written in slices of as many keys as the store takes, and kept while the store is away', async () => {
  const slices: number[] = [];
  let away = true;
  const store = {
    usesPerWrite: 250,
    recordUse: async (uses) => {
      if (away) return err({ code: 'store_unavailable', reason: 'away' });
      slices.push(uses.length);
      return ok(undefined);
    },
  } as Pick<KeyStore, 'recordUse' | 'usesPerWrite'> as KeyStore; // all it needs of it
  const log = createLog({ level: 'info', clock: systemClock, write: async () => {} });
  const lastUsed = createLastUsed({ store, log });
  for (let key = 0; key < 600; key += 1) lastUsed.note(`key ${key}`, 1000 + key);
  await lastUsed.flush();
  expect(slices).toEqual([]);
  away = false;
  await lastUsed.stop();
  expect(slices).toEqual([250, 250, 100]);
});
