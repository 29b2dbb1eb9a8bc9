// How many children all keys of an owner have at a time, and make in a day.

import { expect, test } from 'bun:test';
import { childOf, exchange } from '../../support/children.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';

const PARENT = { scopes: ['read', 'delegate'] };
const LONGEST = { expires_in: '86400' };
const SHORTEST = { expires_in: '60' };
const BURST = 100;
const MS_PER_DAY = 86_400_000;

test('an owner has 1,000 living ones, and makes 10,000 in a day; another owner is not held up', async () => {
  await using app = await createTestApp();
  let begunAtMs = app.clock.nowMs();
  const elapsedS = () => (app.clock.nowMs() - begunAtMs) / 1000;
  const others = (await app.createKey('bob', PARENT)).key;
  const spend = (key: string, lasting: Record<string, string>) =>
    Promise.all(Array.from({ length: BURST }, () => exchange(app, key, lasting)));
  let last = '';
  for (let count = 0; count < 10; count += 1) {
    last = (await app.createKey('alice', PARENT)).key;
    const made = await spend(last, LONGEST);
    expect(made.filter(({ status }) => status === 200)).toHaveLength(BURST);
    app.clock.advance(BURST * 1000);
  }

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

  // Each key has half of its owner's day.
  const parents = [key, (await app.createKey('alice', PARENT)).key, (await app.createKey('alice', PARENT)).key];
  app.clock.advance(MS_PER_DAY); // the living ones end, and the day is whole again
  begunAtMs = app.clock.nowMs();
  let made = 0;
  for (let isSpent = false; !isSpent; app.clock.advance(BURST * 1000)) {
    const next = parents.shift() ?? '';
    parents.push(next);
    const answers = await spend(next, SHORTEST);
    made += answers.filter(({ status }) => status === 200).length;
    isSpent = answers.some(({ headers }) => headers.get('retry-after') === '10');
    if (isSpent) expect(made).toBe(10_000 + Math.floor(0.1 * elapsedS()));
  }
  await childOf(app, others);
});
