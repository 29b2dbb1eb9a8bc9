// How many keys whose uses wait, and how long a stop waits for them.

import { expect, test } from 'bun:test';
import { AWAY, keyOf, usageOver } from './usage-over.ts';

test('the uses of 100,000 keys are kept while the store is away, those of further keys counted', async () => {
  let written = 0;
  let away = true;
  let logged = '';
  const usage = usageOver(
    async (uses) => {
      if (away) throw AWAY;
      written += uses.length;
    },
    async (chunk) => {
      logged += new TextDecoder().decode(chunk);
    },
  );
  for (let key = 0; key < 100_002; key += 1) usage.note(keyOf(`key ${key}`), 1000);
  usage.note(keyOf('key 0'), 2000); // known: no further key
  away = false;
  await usage.stop();
  await usage.log.flush();
  expect(written).toBe(100_000);
  expect(logged).toContain('"event":"uses not written","count":2}');
});

const SLOW_MS = 150;

test('a stop writes all uses, however long a slow store takes', async () => {
  let written = 0;
  const slow = async () => {
    await Bun.sleep(SLOW_MS);
    written += 1;
  };
  const usage = usageOver(slow, undefined, { usesPerWrite: 1 });
  for (let key = 0; key < 25; key += 1) usage.note(keyOf(`key ${key}`), 1000);
  await usage.stop();
  expect(written).toBe(25);
});

test('a stop gives up on a store that hangs', async () => {
  let written = 0;
  const hanging = async () => {
    written += 1;
    if (written === 3) await new Promise(() => {});
  };
  const usage = usageOver(hanging, undefined, { usesPerWrite: 1 });
  for (let key = 0; key < 5; key += 1) usage.note(keyOf(`key ${key}`), 1000);
  await usage.stop();
  expect(written).toBe(3);
});
