// What a flood of unknown keys may cost, and what it leaves to honest callers.

import { describe, expect, test } from 'bun:test';
import { createMissBudget, networkOf } from '../../src/keys/miss-budget.ts';
import { testClock } from '../support/clock.ts';
import { type Answer, createTestApp, insertKey, type TestApp } from '../support/test-app.ts';

const BURST = 1000;
const guess = (n: number) => `sk_test_${n.toString(16).padStart(64, '0')}`;

/** Presents unknown keys until the budget of this address is gone. */
async function flood(app: TestApp, from: number, count: number): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let start = from; start < from + count; start += 50) {
    answers.push(...(await Promise.all(Array.from({ length: 50 }, (_, i) => app.useKey(guess(start + i))))));
  }
  return answers;
}

describe('a flood of unknown keys from one address', () => {
  test('is read from the store up to the budget, then told to come back in a second', async () => {
    await using app = await createTestApp();
    const within = await flood(app, 1, BURST);
    expect(new Set(within.map(({ status }) => status))).toEqual(new Set([401]));
    expect(app.service.keyDomain.verifier.counts.reads).toBe(BURST);
    const over = await flood(app, BURST + 1, 50);
    expect(over.map(({ status }) => status)).toEqual(Array(50).fill(429));
    expect(over[0]?.body.code).toBe('rate_limited');
    expect(over[0]?.headers.get('retry-after')).toBe('1');
    expect(app.service.keyDomain.verifier.counts.reads).toBe(BURST);
  });

  test('leaves known keys served, and lets an unseen honest key in when it comes back as told', async () => {
    await using app = await createTestApp();
    const known = await app.createKey('alice');
    const unseen = await app.createKey('bob');
    expect((await app.useKey(known.key)).status).toBe(200);
    await flood(app, 1, BURST + 50);
    expect((await app.useKey(known.key)).status).toBe(200);
    expect((await app.useKey(unseen.key)).status).toBe(429);
    // The time it was told to wait, through which the flood goes on and uses up what comes in.
    app.clock.advance(1000);
    await flood(app, 5000, 250);
    expect((await app.useKey(unseen.key)).status).toBe(200);
  });

  test('as fast as the server can refuse, does not make it forget whom it told to come back', async () => {
    const clock = testClock();
    const budget = createMissBudget(clock);
    const isAdmitted = async (key: string) => (await budget.take('192.0.2.1', key)).ok;
    const refusals = async (count: number, name: string) => {
      const taken = await Promise.all(Array.from({ length: count }, (_, n) => isAdmitted(`${name} ${n}`)));
      return taken.filter((admitted) => !admitted).length;
    };
    await refusals(BURST + 50, 'before');
    expect(await isAdmitted('honest')).toBe(false);
    expect(await refusals(80_000, 'meanwhile')).toBe(80_000); // what it refuses in a second, and more
    clock.advance(899);
    await refusals(250, 'early'); // uses up what came in
    expect(await isAdmitted('honest')).toBe(false); // it did not wait as it was told
    clock.advance(101);
    await refusals(250, 'after');
    expect(await isAdmitted('honest')).toBe(true);
  });

  test('leaves room for 50 a second of those that come back as told, once each', async () => {
    const clock = testClock();
    const budget = createMissBudget(clock);
    const admitted = async (count: number, name: string) => {
      const taken = await Promise.all(
        Array.from({ length: count }, (_, n) => budget.take('192.0.2.1', `${name} ${n}`)),
      );
      return taken.filter(({ ok }) => ok).length;
    };
    expect(await admitted(BURST, 'before')).toBe(BURST);
    expect(await admitted(60, 'told')).toBe(0);
    clock.advance(1000);
    await admitted(200, 'meanwhile'); // uses up what came in
    expect(await admitted(60, 'told')).toBe(50);
    clock.advance(1000);
    await admitted(200, 'later');
    expect(await admitted(50, 'told')).toBe(0); // those were let in
  });

  test('keeps 16 callers waiting, and the others are refused at once', async () => {
    const budget = createMissBudget(testClock());
    const take = (n: number) => budget.take('192.0.2.1', `key ${n}`);
    for (let n = 0; n < BURST; n += 1) take(n);
    const over = Array.from({ length: 20 }, (_, n) => take(BURST + n));
    expect(over.filter((taken) => taken instanceof Promise)).toHaveLength(16);
    await Promise.all(over);
  });

  test('has a budget again after a while', async () => {
    await using app = await createTestApp();
    await flood(app, 1, BURST + 50);
    app.clock.advance(1000);
    const answers = await flood(app, 5000, 150);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
  });
});

test('many honest keys behind one address, all at once, use up no budget', async () => {
  await using app = await createTestApp({ env: { REVOCATION_LAG_MAX_MS: '60000' } });
  const keys: string[] = [];
  for (let user = 0; user < 12; user += 1) {
    for (let n = 0; n < 100; n += 1) keys.push(await insertKey(app, `user-${user}`, ['read']));
  }
  expect(keys).toHaveLength(1200);
  for (let start = 0; start < keys.length; start += 50) {
    const answers = await Promise.all(keys.slice(start, start + 50).map((key) => app.useKey(key)));
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(200));
  }
}, 30_000);

test('keys that could not be looked up use up no budget', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice');
  await app.useKey(key); // memory is current from here on: the clock stands
  await app.service.close();
  const answers = await flood(app, 1, BURST + 50);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
});

describe('networkOf', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
  ])('%s belongs to %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});
