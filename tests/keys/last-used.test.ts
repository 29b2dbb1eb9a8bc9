// lastUsedAt is exact at once in the process, in the database within 5 s, and flushed by an orderly stop.

import { expect, test } from 'bun:test';
import { systemClock } from '../../src/clock.ts';
import { createLastUsed } from '../../src/keys/last-used.ts';
import type { KeyStore } from '../../src/keys/record.ts';
import { createLog } from '../../src/log.ts';
import { err, ok } from '../../src/problem.ts';
import { shuffled } from '../bench/database.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';

const lastUsedAt = async (app: TestApp, id: string) => {
  const { body } = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  return body.keys.find((key: { id: string }) => key.id === id)?.lastUsedAt;
};

test('another process on the file sees a use within 5 s, and nothing is written for it before', async () => {
  await using first = await createTestApp();
  await using second = await createTestApp({ folder: first.folder, clock: first.clock });
  const { id, key } = await first.createKey('alice');
  await first.call('get_data', {}, { 'x-api-key': key });
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
  await first.call('get_data', {}, { 'x-api-key': key });
  await first.close();
  await using second = await createTestApp({ folder: first.folder, clock: first.clock });
  expect(await lastUsedAt(second, id)).toBe(first.clock.nowMs());
});

test('of two processes the later use stays, whichever writes last', async () => {
  await using reader = await createTestApp();
  const { id, key } = await reader.createKey('alice');
  const early = await createTestApp({ folder: reader.folder, clock: reader.clock });
  const late = await createTestApp({ folder: reader.folder, clock: reader.clock });
  await early.call('get_data', {}, { 'x-api-key': key });
  reader.clock.advance(1000);
  await late.call('get_data', {}, { 'x-api-key': key });
  await late.close();
  await early.close();
  expect(await lastUsedAt(reader, id)).toBe(reader.clock.nowMs());
});

test('uses are written oldest keys first, in slices of as many as the store takes, and kept while it is away', async () => {
  const slices: (readonly (readonly [keyId: string, usedAtMs: number])[])[] = [];
  let away = true;
  const store = {
    usesPerWrite: 250,
    recordUse: async (uses) => {
      if (away) return err({ code: 'store_unavailable', reason: 'away' });
      slices.push(uses);
      return ok(undefined);
    },
  } as Pick<KeyStore, 'recordUse' | 'usesPerWrite'> as KeyStore; // all it needs of it
  const log = createLog({ level: 'info', clock: systemClock, write: async () => {} });
  const lastUsed = createLastUsed({ store, log });
  const keys = Array.from({ length: 600 }, (_, age) => ({ id: `key ${age}`, createdAtMs: age }));
  for (const key of shuffled(keys)) lastUsed.note(key, 1000 + key.createdAtMs);
  await lastUsed.flush();
  expect(slices).toEqual([]);
  away = false;
  await lastUsed.stop();
  expect(slices.map((uses) => uses.length)).toEqual([250, 250, 100]);
  expect(slices.flat()).toEqual(keys.map(({ id, createdAtMs }): [string, number] => [id, 1000 + createdAtMs]));
});
