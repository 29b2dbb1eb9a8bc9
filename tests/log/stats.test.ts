// What the service counts, at debug level.

import { expect, test } from 'bun:test';
import { createTestApp } from '../support/test-app.ts';

test('at debug level the log says what verification asked of memory and of the database', async () => {
  const app = await createTestApp({ env: { LOG_LEVEL: 'debug' } });
  const { key } = await app.createKey('alice');
  for (let calls = 0; calls < 20; calls += 1) await app.useKey(key);
  await app.call('get_data', {}, { 'x-api-key': `sk_test_${'0'.repeat(64)}` });
  await app.close();

  const { hits, refusedHits, reads, storeReads, storeWrites } = (await app.log()).findLast(
    ({ event }) => event === 'counts',
  ) as unknown as Record<string, number>;
  expect({ hits, refusedHits, reads }).toEqual({ hits: 19, refusedHits: 0, reads: 2 });
  expect(storeReads).toBeGreaterThan(2);
  expect(storeReads).toBeLessThan(19); // of the two keys, and the polls of the change feed
  expect(storeWrites).toBe(2); // the key, and its last use at the end
});

test('at the default level nothing is counted in the log', async () => {
  const app = await createTestApp();
  await app.createKey('alice');
  await app.close();
  expect((await app.log()).map(({ event }) => event)).not.toContain('counts');
});
