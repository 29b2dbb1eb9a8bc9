// Last uses on their way to the database: at an orderly stop, and in slices. Several servers are in
// ../store/last-used.test.ts.

import { expect, test } from 'bun:test';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@libsql/client';
import { createLastUsed, track } from '../../src/keys/last-used.ts';
import type { KeyStore } from '../../src/keys/store.ts';
import { err, ok } from '../../src/lib/result.ts';

import { createLog, type LogWrite } from '../../src/log/log.ts';
import { shuffled } from '../bench/database.ts';
import { testClock } from '../support/clock.ts';
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

test('a stop that cannot write what is pending closes the database all the same', async () => {
  const app = await createTestApp({ store: 'embedded' });
  const { key } = await app.createKey('alice');
  await app.useKey(key);
  const file = join(app.folder, 'keys.db');
  const database = createClient({ url: `file:${file}` });
  await database.execute("CREATE TRIGGER broken BEFORE INSERT ON key_uses BEGIN SELECT RAISE(ABORT, 'a bug'); END");
  database.close();
  expect(await app.close().catch(String)).toContain('a bug');
  expect(statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0).toBe(0);
});

const keyOf = (id: string, createdAtMs = 0) =>
  track({
    id,
    userId: 'alice',
    name: id,
    keyHash: id,
    scopes: [],
    active: true,
    createdAtMs,
    expiresAtMs: null,
    second: null,
    rotations: 0,
    rateLimit: null,
    quota: null,
  });
const AWAY = err({ code: 'store_unavailable', reason: 'away' } as const);

/** Last uses over a store that has only what they need. */
function lastUsedOver(recordUse: KeyStore['recordUse'], write: LogWrite = async () => {}) {
  const clock = testClock();
  const log = createLog({ level: 'info', clock, write });
  return { ...createLastUsed({ store: { usesPerWrite: 250, recordUse } as KeyStore, clock, log }), clock, log };
}

test('uses are written oldest keys first, in slices of as many as the store takes, and kept while it is away', async () => {
  const slices: (readonly (readonly [keyId: string, usedAtMs: number])[])[] = [];
  let away = true;
  const lastUsed = lastUsedOver(async (uses) => {
    if (away) return AWAY;
    slices.push(uses);
    return ok(undefined);
  });
  const keys = Array.from({ length: 600 }, (_, age) => keyOf(`key ${age}`, age));
  for (const key of shuffled(keys)) lastUsed.note(key, 1000 + key.record.createdAtMs);
  await lastUsed.flush();
  expect(slices).toEqual([]);
  away = false;
  await lastUsed.stop();
  expect(slices.map((uses) => uses.length)).toEqual([250, 250, 100]);
  expect(slices.flat()).toEqual(keys.map(({ record }): [string, number] => [record.id, 1000 + record.createdAtMs]));
});

test('uses are written three seconds after the first of them, and again three seconds after what came since', async () => {
  const slices: unknown[] = [];
  const lastUsed = lastUsedOver(async (uses) => {
    slices.push(uses);
    return ok(undefined);
  });
  lastUsed.note(keyOf('first'), 1000);
  lastUsed.clock.advance(2000);
  lastUsed.note(keyOf('second', 1), 2000);
  lastUsed.clock.advance(999);
  await Bun.sleep(0); // a flush would have begun
  expect(slices).toEqual([]);
  lastUsed.clock.advance(1);
  await lastUsed.flush(); // joins it
  const both = [
    ['first', 1000],
    ['second', 2000],
  ];
  expect(slices).toEqual([both]);
  lastUsed.note(keyOf('third'), 3000);
  lastUsed.clock.advance(3000);
  await lastUsed.flush();
  expect(slices).toEqual([both, [['third', 3000]]]);
  await lastUsed.stop();
});

test('of two uses, the second noted while the first cannot be written, the later is written', async () => {
  const written: unknown[] = [];
  let away = true;
  const key = keyOf('key');
  const lastUsed = lastUsedOver(async (uses) => {
    if (!away) written.push(...uses);
    else lastUsed.note(key, 2000);
    return away ? AWAY : ok(undefined);
  });
  lastUsed.note(key, 1000);
  await lastUsed.flush();
  away = false;
  await lastUsed.stop();
  expect(written).toEqual([['key', 2000]]);
});

test('a key that is used while its last use is on its way is written again', async () => {
  const written: unknown[] = [];
  const key = keyOf('key');
  const lastUsed = lastUsedOver(async (uses) => {
    written.push(...uses);
    if (written.length === 1) lastUsed.note(key, 2000);
    return ok(undefined);
  });
  lastUsed.note(key, 1000);
  await lastUsed.flush();
  await lastUsed.stop();
  expect(written).toEqual([
    ['key', 1000],
    ['key', 2000],
  ]);
});

test('a stop during a flush also writes what was used after that flush began', async () => {
  const written: unknown[] = [];
  const stored = Promise.withResolvers<void>();
  const lastUsed = lastUsedOver(async (uses) => {
    await stored.promise;
    written.push(...uses);
    return ok(undefined);
  });
  lastUsed.note(keyOf('first'), 1000);
  void lastUsed.flush();
  lastUsed.note(keyOf('second'), 2000);
  const stopped = lastUsed.stop();
  stored.resolve();
  await stopped;
  expect(written).toEqual([
    ['first', 1000],
    ['second', 2000],
  ]);
});

test('a list that was read before a use was written, and is returned after, shows the use', async () => {
  const lastUsed = lastUsedOver(async () => ok(undefined));
  const key = keyOf('key');
  lastUsed.note(key, 1000);
  await lastUsed.stop(); // writes
  expect(lastUsed.of({ ...key.record, lastUsedAtMs: null })).toBe(1000);
});

test('if a record was read twice, as when its name changes in between, the later use is written', async () => {
  const written: unknown[] = [];
  const lastUsed = lastUsedOver(async (uses) => {
    written.push(...uses);
    return ok(undefined);
  });
  const [before, after] = [keyOf('key'), keyOf('key')];
  lastUsed.note(before, 1000);
  lastUsed.note(after, 3000);
  lastUsed.note(before, 2000);
  expect(lastUsed.of({ ...after.record, lastUsedAtMs: null })).toBe(3000);
  await lastUsed.stop();
  expect(written).toEqual([['key', 3000]]);
});

test('the uses of 100,000 keys are kept while the store is away, those of further keys counted', async () => {
  let written = 0;
  let away = true;
  let logged = '';
  const lastUsed = lastUsedOver(
    async (uses) => {
      if (away) return AWAY;
      written += uses.length;
      return ok(undefined);
    },
    async (chunk) => {
      logged += new TextDecoder().decode(chunk);
    },
  );
  for (let key = 0; key < 100_002; key += 1) lastUsed.note(keyOf(`key ${key}`), 1000);
  lastUsed.note(keyOf('key 0'), 2000); // known: no further key
  away = false;
  await lastUsed.flush(); // takes the time that it needs, unlike a stop
  await lastUsed.stop();
  await lastUsed.log.flush();
  expect(written).toBe(100_000);
  expect(logged).toContain('"event":"last uses not noted","count":2}');
});
