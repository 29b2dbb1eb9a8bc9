// When the last uses of keys are written, and that none is lost on the way.

import { expect, test } from 'bun:test';
import { err, ok } from '../../src/lib/result.ts';
import { systemRandom } from '../../src/lib/runtime.ts';
import { createLog, type LogWrite } from '../../src/log/log.ts';
import type { UsesStore } from '../../src/uses/store.ts';
import { createUsage } from '../../src/uses/usage.ts';
import { shuffled } from '../bench/database.ts';
import { testClock } from '../support/clock.ts';

const keyOf = (id: string, createdAtMs = 0) => ({ id, createdAtMs });
const AWAY = err({ code: 'store_unavailable', reason: 'away' } as const);

/** Over a store that has only what last uses need, and `more`. */
function usageOver(
  recordLastUses: UsesStore['recordLastUses'],
  write: LogWrite = async () => {},
  more: Partial<UsesStore> = {},
) {
  const clock = testClock();
  const log = createLog({ level: 'info', clock, write });
  const store = { usesPerWrite: 250, recordLastUses, countsOf: async () => ok([]), ...more } as unknown as UsesStore;
  const rateLimit = { requests: 0, windowMs: 1000 };
  return { ...createUsage({ store, clock, random: systemRandom, log, rateLimit, keyQuota: null }), clock, log };
}

test('uses are written oldest keys first, in slices of as many as the store takes, and kept while it is away', async () => {
  const slices: (readonly (readonly [keyId: string, usedAtMs: number])[])[] = [];
  let away = true;
  const usage = usageOver(async (uses) => {
    if (away) return AWAY;
    slices.push(uses);
    return ok(undefined);
  });
  const keys = Array.from({ length: 600 }, (_, age) => keyOf(`key ${age}`, age));
  for (const key of shuffled(keys)) usage.note(key, 1000 + key.createdAtMs);
  await usage.flush();
  expect(slices).toEqual([]);
  away = false;
  await usage.stop();
  expect(slices.map((uses) => uses.length)).toEqual([250, 250, 100]);
  expect(slices.flat()).toEqual(keys.map(({ id, createdAtMs }): [string, number] => [id, 1000 + createdAtMs]));
});

test('uses are written three seconds after the first of them, and again three seconds after what came since', async () => {
  const slices: unknown[] = [];
  const usage = usageOver(async (uses) => {
    slices.push(uses);
    return ok(undefined);
  });
  usage.note(keyOf('first'), 1000);
  usage.clock.advance(2000);
  usage.note(keyOf('second', 1), 2000);
  usage.clock.advance(999);
  await Bun.sleep(0); // a flush would have begun
  expect(slices).toEqual([]);
  usage.clock.advance(1);
  await usage.flush(); // joins it
  const both = [
    ['first', 1000],
    ['second', 2000],
  ];
  expect(slices).toEqual([both]);
  usage.note(keyOf('third'), 3000);
  usage.clock.advance(3000);
  await usage.flush();
  expect(slices).toEqual([both, [['third', 3000]]]);
  await usage.stop();
});

test('of two uses, the second noted while the first cannot be written, the later is written', async () => {
  const written: unknown[] = [];
  let away = true;
  const key = keyOf('key');
  const usage = usageOver(async (uses) => {
    if (!away) written.push(...uses);
    else usage.note(key, 2000);
    return away ? AWAY : ok(undefined);
  });
  usage.note(key, 1000);
  await usage.flush();
  away = false;
  await usage.stop();
  expect(written).toEqual([['key', 2000]]);
});

test('a key that is used while its last use is on its way is written again', async () => {
  const written: unknown[] = [];
  const key = keyOf('key');
  const usage = usageOver(async (uses) => {
    written.push(...uses);
    if (written.length === 1) usage.note(key, 2000);
    return ok(undefined);
  });
  usage.note(key, 1000);
  await usage.flush();
  await usage.stop();
  expect(written).toEqual([
    ['key', 1000],
    ['key', 2000],
  ]);
});

test('a stop during a flush also writes what was used after that flush began', async () => {
  const written: unknown[] = [];
  const stored = Promise.withResolvers<void>();
  const usage = usageOver(async (uses) => {
    await stored.promise;
    written.push(...uses);
    return ok(undefined);
  });
  usage.note(keyOf('first'), 1000);
  void usage.flush();
  usage.note(keyOf('second'), 2000);
  const stopped = usage.stop();
  stored.resolve();
  await stopped;
  expect(written).toEqual([
    ['first', 1000],
    ['second', 2000],
  ]);
});

test('a list that was read before a use was written, and is returned after, shows the use', async () => {
  const usage = usageOver(async () => ok(undefined));
  const key = keyOf('key');
  usage.note(key, 1000);
  await usage.stop(); // writes
  expect(usage.lastUsedAt({ ...key, lastUsedAtMs: null })).toBe(1000);
});

test('of uses that are noted out of order the latest is listed and written', async () => {
  const written: unknown[] = [];
  const usage = usageOver(async (uses) => {
    written.push(...uses);
    return ok(undefined);
  });
  const key = keyOf('key');
  for (const usedAtMs of [1000, 3000, 2000]) usage.note(key, usedAtMs);
  expect(usage.lastUsedAt({ ...key, lastUsedAtMs: null })).toBe(3000);
  expect(usage.lastUsedAt({ ...key, lastUsedAtMs: 4000 })).toBe(4000);
  await usage.stop();
  expect(written).toEqual([['key', 3000]]);
});

test('the uses of 100,000 keys are kept while the store is away, those of further keys counted', async () => {
  let written = 0;
  let away = true;
  let logged = '';
  const usage = usageOver(
    async (uses) => {
      if (away) return AWAY;
      written += uses.length;
      return ok(undefined);
    },
    async (chunk) => {
      logged += new TextDecoder().decode(chunk);
    },
  );
  for (let key = 0; key < 100_002; key += 1) usage.note(keyOf(`key ${key}`), 1000);
  usage.note(keyOf('key 0'), 2000); // known: no further key
  away = false;
  await usage.flush(); // takes the time that it needs, unlike a stop
  await usage.stop();
  await usage.log.flush();
  expect(written).toBe(100_000);
  expect(logged).toContain('"event":"uses not written","count":2}');
});

test('last uses are written while counts cannot be, and counts while last uses cannot', async () => {
  const written = { lastUses: [] as unknown[], counts: [] as unknown[] };
  let away: 'lastUses' | 'counts' | null = 'counts';
  const record = (what: 'lastUses' | 'counts') => async (rows: readonly unknown[]) => {
    if (away === what) return AWAY;
    written[what].push(...rows);
    return ok(undefined);
  };
  const recordCounts = record('counts');
  const usage = usageOver(record('lastUses'), undefined, { recordCounts: (_, counts) => recordCounts(counts) });
  const keys = Array.from({ length: 600 }, (_, age) => keyOf(`key ${age}`, age));
  const useAll = (usedAtMs: number) => {
    for (const key of keys) usage.note(key, usedAtMs);
    for (const { id } of keys) usage.admit(id);
  };
  useAll(1000);
  await usage.flush();
  expect([written.lastUses.length, written.counts.length]).toEqual([600, 0]);
  away = 'lastUses';
  useAll(2000);
  await usage.flush();
  expect([written.lastUses.length, written.counts.length]).toEqual([600, 600]);
  away = null;
  await usage.stop();
  expect([written.lastUses.length, written.counts.length]).toEqual([1200, 600]);
});
