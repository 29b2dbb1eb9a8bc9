// How many children all keys of an owner have at a time, and make in a day.

import { expect, test } from 'bun:test';
import { childOf, exchange } from '../../support/children.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';

const PARENT = { scopes: ['read', 'delegate'] };
const LONGEST = { expires_in: '86400' };
const BURST = 100;

test('an owner has 1,000 living ones, and makes 10,000 in a day; another owner is not held up', async () => {
  await using app = await createTestApp();
  const begunAtMs = app.clock.nowMs();
  const elapsedS = () => (app.clock.nowMs() - begunAtMs) / 1000;
  const others = (await app.createKey('bob', PARENT)).key;
  const spend = (key: string) => Promise.all(Array.from({ length: BURST }, () => exchange(app, key, LONGEST)));
  let last = '';
  for (let parents = 0; parents < 10; parents += 1) {
    last = (await app.createKey('alice', PARENT)).key;
    const made = await spend(last);
    expect(made.filter(({ status }) => status === 200)).toHaveLength(BURST);
    app.clock.advance(BURST * 1000);
  }
  let taken = 10 * BURST;

  const { key } = await app.createKey('alice', PARENT);
  const refused = await exchange(app, key, LONGEST);
  const untilFirstEnds = String(86_400 - elapsedS());
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, untilFirstEnds]);
  await childOf(app, others);
  const { keys } = (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body;
  const [child] = (await app.call('list_api_keys', { childrenOf: keys[1].id }, await bearer(app, 'alice'))).body.keys;
  await app.call('revoke_api_key', { keyId: child.id }, await bearer(app, 'alice'));
  const statuses = [await exchange(app, key, LONGEST), await exchange(app, key, LONGEST)].map(({ status }) => status);
  expect(statuses).toEqual([200, 429]);
  taken += 3;

  // Those that find too many living ones count, too.
  for (let isSpent = false; !isSpent; app.clock.advance(BURST * 1000)) {
    const waits = (await spend(key)).map(({ headers }) => Number(headers.get('retry-after')));
    taken += waits.filter((seconds) => seconds > 10).length;
    isSpent = waits.some((seconds) => seconds === 10);
    if (isSpent) expect(taken).toBe(10_000 + Math.floor(0.1 * elapsedS()));
  }
  await childOf(app, others);
}, 120_000);
