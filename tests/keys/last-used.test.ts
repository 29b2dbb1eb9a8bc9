// Last uses on their way to the database: at an orderly stop, and in slices. Several servers are in ../store/last-used.test.ts.

import { expect, test } from 'bun:test';
import { systemClock } from '../../src/clock.ts';
import { createLastUsed } from '../../src/keys/last-used.ts';
import type { KeyStore } from '../../src/keys/record.ts';
import { createLog } from '../../src/log.ts';
import { err, ok } from '../../src/problem.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

test('an orderly stop writes what is pending', async () => {
  const first = await createTestApp();
  const { key } = await first.createKey('alice');
  await first.useKey(key);
  await first.close();
  await using second = await createTestApp({ folder: first.folder, clock: first.clock });
  const { body } = await second.call('list_api_keys', {}, await bearer(second, 'alice'));
  expect(body.keys[0].lastUsedAt).toBe(first.clock.nowMs());
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
