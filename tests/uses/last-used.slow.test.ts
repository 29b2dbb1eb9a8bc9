// How many keys whose uses wait: they are written with pauses, over ten seconds.

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
  await usage.flush(); // takes the time that it needs, unlike a stop
  await usage.stop();
  await usage.log.flush();
  expect(written).toBe(100_000);
  expect(logged).toContain('"event":"uses not written","count":2}');
});
