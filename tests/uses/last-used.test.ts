// When the uses of keys are written, and that none is lost on the way.

import { expect, test } from 'bun:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { shuffled } from '../lab/bench/database.ts';
import { AWAY, type ExchangedUses, keyOf, lastUsesIn, usageOver } from './usage-over.ts';

test('uses are written oldest keys first, in slices of as many as the store takes, and kept while it is away', async () => {
  const slices: (readonly (readonly [keyId: string, usedAtMs: number])[])[] = [];
  let away = true;
  const usage = usageOver(async (uses) => {
    if (away) throw AWAY;
    slices.push(uses);
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

/** What is written, in order; `before` each write something else happens, which may throw. */
function collecting(before: (usage: ReturnType<typeof usageOver>, writes: number) => unknown = () => {}) {
  const written: unknown[] = [];
  let writes = 0;
  const usage = usageOver(async (uses) => {
    writes += 1;
    await before(usage, writes);
    written.push(...uses);
  });
  return { usage, written };
}

test('of two uses, the second noted while the first cannot be written, the later is written', async () => {
  const key = keyOf('key');
  const { usage, written } = collecting((usage, writes) => {
    if (writes > 1) return;
    usage.note(key, 2000);
    throw AWAY;
  });
  usage.note(key, 1000);
  await usage.flush();
  await usage.stop();
  expect(written.at(-1)).toEqual(['key', 2000]);
});

test('a key that is used while its last use is on its way is written again', async () => {
  const key = keyOf('key');
  const { usage, written } = collecting((usage, writes) => {
    if (writes === 1) usage.note(key, 2000);
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
  let stopped: Promise<void> | undefined;
  const { usage, written } = collecting((usage, writes) => {
    if (writes > 1) return;
    usage.note(keyOf('second'), 2000);
    stopped = usage.stop();
  });
  usage.note(keyOf('first'), 1000);
  await usage.flush();
  await stopped;
  expect(written).toEqual([
    ['first', 1000],
    ['second', 2000],
  ]);
});

test('of uses that are noted out of order the latest is listed and written, also where it was read before', async () => {
  const { usage, written } = collecting();
  const key = keyOf('key');
  for (const usedAtMs of [1000, 3000, 2000]) usage.note(key, usedAtMs);
  expect(usage.lastUsedAt({ ...key, lastUsedAtMs: null })).toBe(3000);
  expect(usage.lastUsedAt({ ...key, lastUsedAtMs: 4000 })).toBe(4000);
  await usage.stop(); // writes
  expect(written).toEqual([['key', 3000]]);
  expect(usage.lastUsedAt({ ...key, lastUsedAtMs: null })).toBe(3000); // as in a list that was read before
});

test('an exchange whose outcome is unknown is sent again as it was, and what was counted since in the next', async () => {
  const sent: ExchangedUses[] = [];
  let away = true;
  const usage = usageOver(async () => {}, undefined, {
    async addUses(uses) {
      sent.push(structuredClone({ ...uses, keys: [], usages: [] }));
      if (away) throw AWAY;
    },
  });
  const use = (usedAtMs: number) => {
    usage.note(keyOf('key'), usedAtMs);
    usage.admit('key');
  };
  use(1000);
  await usage.flush();
  use(2000);
  use(3000);
  away = false;
  await usage.flush();
  await usage.stop();
  const [{ instance = '', windows = [] } = {}] = sent;
  expect(instance).toMatch(/^[0-9a-f]{16}$/);
  const counted = windows.filter(([, , , , , added]) => added > 0); // the last uses are of another day
  expect(counted.map(([id, , windowS, , , added]) => [id, windowS, added])).toEqual([['key', 86_400, 1]]);
  expect(
    sent.map(({ number, windows }) => [number, lastUsesIn(windows), windows.map(([, , , , , added]) => added)]),
  ).toEqual([
    [1, [['key', 1000]], [1, 0]],
    [1, [['key', 1000]], [1, 0]],
    [2, [['key', 3000]], [2, 0]],
  ]);
});

test('uses of up to 1,000 keys are exchanged 3 s later, of more as much later, and all within 60 s', async () => {
  for (const [keys, afterMs] of [
    [1000, 3000],
    [1001, 3003],
    [5000, 15_000],
    [100_000, 30_000],
  ] as const) {
    let written = 0;
    const usage = usageOver(async (uses) => {
      written += uses.length;
    });
    for (let key = 0; key < keys; key += 1) usage.note(keyOf(`key ${key}`, key), 1000);
    usage.clock.advance(afterMs - 1);
    await nextTurn();
    expect([keys, written]).toEqual([keys, 0]);
    usage.clock.advance(1);
    await nextTurn();
    expect([keys, written > 0]).toEqual([keys, true]);
    await usage.stop();
    expect(written).toBe(keys);
  }
});
