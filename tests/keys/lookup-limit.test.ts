// What a flood of unknown keys may cost, and what it leaves to honest callers.

import { describe, expect, test } from 'bun:test';
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { createLookupLimit } from '../../src/keys/lookup-limit.ts';
import { networkOf } from '../../src/lib/ip.ts';
import { testClock } from '../support/clock.ts';
import { bearer, CALLER, createTestApp, insertKey, type TestApp, type TestResponse } from '../support/test-app.ts';

const BURST = 1000;
/** Keys of an address are looked up together this often, at most (keys/joint-reads.ts). */
const GATHER_MS = 25;
const guess = (n: number) => `sk_test_${n.toString(16).padStart(64, '0')}`;
const guesses = (from: number, count: number) => Array.from({ length: count }, (_, n) => guess(from + n));

/** Presents these keys, `atOnce` at a time. */
async function present(app: TestApp, keys: readonly string[], atOnce = 50): Promise<TestResponse[]> {
  const responses: TestResponse[] = [];
  for (let start = 0; start < keys.length; start += atOnce) {
    responses.push(...(await Promise.all(keys.slice(start, start + atOnce).map((key) => app.useKey(key)))));
  }
  return responses;
}

/** Presents unknown keys, which takes the budget of this address as far as it goes. */
const flood = (app: TestApp, from: number, count: number) => present(app, guesses(from, count));

const statusesOf = (responses: readonly TestResponse[]) => [...new Set(responses.map(({ status }) => status))];

describe('a flood of unknown keys from one address', () => {
  test('a flood of unknown keys is looked up to the budget, then gets 429 with Retry-After: 1', async () => {
    await using app = await createTestApp();
    expect(statusesOf(await flood(app, 1, BURST))).toEqual([401]);
    expect(app.service.keyDomain.verifier.reads).toBe(BURST);
    const over = await flood(app, BURST + 1, 50);
    expect(statusesOf(over)).toEqual([429]);
    expect(over[0]?.body.code).toBe('rate_limited');
    expect(over[0]?.headers.get('retry-after')).toBe('1');
    expect(app.service.keyDomain.verifier.reads).toBe(BURST);
  });

  test('a flood of unknown keys is logged with its address and a request, once a second, with the number of lines left out', async () => {
    await using app = await createTestApp();
    const lines = async () => (await app.log()).filter(({ event }) => event === 'Too many unknown keys');
    const logged = async () =>
      (await lines()).map(({ level, address, suppressed }) => ({ level, address, suppressed }));
    await flood(app, 1, BURST);
    expect(await logged()).toEqual([]);
    const refused = await flood(app, 5000, 50);
    expect(refused.map(({ body }) => body.requestId)).toContain((await lines())[0]?.requestId);
    expect(await logged()).toEqual([{ level: 'warn', address: '127.0.0.1', suppressed: 0 }]);
    app.clock.advance(1000);
    await flood(app, 6000, 201);
    expect(await logged()).toEqual([
      { level: 'warn', address: '127.0.0.1', suppressed: 0 },
      { level: 'warn', address: '127.0.0.1', suppressed: 49 },
    ]);
  });

  test('a flood of unknown keys leaves known keys served, and an unseen honest key gets in when it retries as told', async () => {
    await using app = await createTestApp();
    const known = await app.createKey('alice');
    const unseen = await app.createKey('bob');
    expect((await app.useKey(known.key)).status).toBe(200);
    await flood(app, 1, BURST + 50);
    expect((await app.useKey(known.key)).status).toBe(200);
    expect((await app.useKey(unseen.key)).status).toBe(429);
    // The time it was told to wait, during which the flood goes on and uses up what is added.
    app.clock.advance(1000);
    await flood(app, 5000, 250);
    expect((await app.useKey(unseen.key)).status).toBe(200);
  });

  test('a flood that retries exactly when told leaves room for honest keys that do so too', async () => {
    await using app = await createTestApp();
    const honest = await Promise.all(Array.from({ length: 10 }, async () => (await app.createKey('alice')).key));
    await flood(app, 1, BURST);
    const attackers = guesses(5000, 2000);
    expect(statusesOf(await present(app, [...attackers, ...honest], 500))).toEqual([429]);
    app.clock.advance(1000);
    await flood(app, 10_000, 200);
    const { verifier } = app.service.keyDomain;
    const before = verifier.reads;
    const startedAtMs = performance.now();
    const [returned, served] = await Promise.all([present(app, attackers), present(app, honest)]);
    expect(statusesOf(returned)).toEqual([401]);
    expect(statusesOf(served)).toEqual([200]);
    const gatherings = (performance.now() - startedAtMs) / GATHER_MS; // a slow machine spreads them over more
    expect(verifier.reads - before).toBeLessThan(Math.max(200, gatherings));
  });

  test('a flood as fast as the server can refuse does not push out those it told to retry', async () => {
    const clock = testClock();
    const budget = createLookupLimit(clock);
    const admissions = async (count: number, name: string) => {
      const hashes = Array.from({ length: count }, (_, n) => Bun.SHA256.hash(`${name} ${n}`, 'hex'));
      return new Set(await Promise.all(hashes.map((hash) => budget.admit('192.0.2.1', hash))));
    };
    expect(await admissions(BURST, 'before')).toEqual(new Set(['alone']));
    expect(await admissions(100, 'honest')).toEqual(new Set(['refused']));
    expect(await admissions(150_000, 'meanwhile')).toEqual(new Set(['refused'])); // more than it refuses in a second
    clock.advance(899);
    await admissions(250, 'early'); // uses up what came in
    expect(await admissions(100, 'honest')).toEqual(new Set(['refused'])); // they did not wait as told
    clock.advance(101);
    await admissions(250, 'after');
    expect(await admissions(100, 'honest')).toEqual(new Set(['together']));
    expect(await admissions(100, 'honest')).toEqual(new Set(['refused'])); // once each
  });

  test('a flood keeps at most 16 callers waiting; the others are refused at once', async () => {
    const budget = createLookupLimit(testClock());
    const admit = (n: number) => budget.admit('192.0.2.1', Bun.SHA256.hash(`key ${n}`, 'hex'));
    for (let n = 0; n < BURST; n += 1) admit(n);
    const over = Array.from({ length: 20 }, (_, n) => admit(BURST + n));
    expect(over.filter((admission) => admission instanceof Promise)).toHaveLength(16);
    await Promise.all(over);
  });

  test('an address has its look-up budget again after a while', async () => {
    await using app = await createTestApp();
    await flood(app, 1, BURST + 50);
    app.clock.advance(1000);
    expect(statusesOf(await flood(app, 5000, 150))).toEqual([401]);
  });
});

describe('keys that come back and are looked up together', () => {
  /** An app whose budget for this address is used up, and in which these keys have been told to come back. */
  async function told(keysOf: (app: TestApp) => Promise<string[]>) {
    const app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
    const keys = await keysOf(app);
    await flood(app, 1, BURST);
    expect(statusesOf(await present(app, keys))).toEqual([429]);
    app.clock.advance(1000);
    await flood(app, 5000, 200);
    return { app, keys };
  }

  test('retried keys that are looked up together each get their own result, for one read in all', async () => {
    const { app, keys } = await told(async (app) => {
      const alice = await bearer(app, 'alice');
      const [good, revoked, deleted] = [
        await app.createKey('alice'),
        await app.createKey('alice'),
        await app.createKey('alice'),
      ];
      const expired = await app.createKey('alice', { expiresInDays: 1e-6 });
      await app.call('revoke_api_key', { keyId: revoked.id }, alice);
      await app.call('delete_api_key', { keyId: deleted.id }, alice);
      return [good.key, revoked.key, deleted.key, expired.key, guess(4000)];
    });
    await using _ = app;
    const { verifier } = app.service.keyDomain;
    const before = verifier.reads;
    // Not by HTTP: they must all come before the first of them is looked up, a moment later.
    const caller = { ...CALLER, clientAddress: () => '127.0.0.1' };
    const verified = await Promise.all(keys.map((key) => verifier.verify(key, caller)));
    expect(verified.map((result) => (result.ok ? 'good' : result.error.code))).toEqual([
      'good',
      ...Array(4).fill('invalid_api_key'),
    ]);
    expect(verifier.reads - before).toBe(1);
    // Found keys are remembered, and wrong ones are refused from memory for a while.
    const responses = await present(app, keys);
    expect(responses.map(({ status }) => status)).toEqual([200, 401, 401, 401, 401]);
    expect(new Set(responses.slice(1).map(({ body }) => body.code))).toEqual(new Set(['invalid_api_key']));
    expect(verifier.reads - before).toBe(1);
    const reasons = (await app.log()).filter(({ event }) => event === 'Invalid or expired API key').slice(-8);
    expect(new Set(reasons.map(({ reason }) => reason))).toEqual(new Set(['revoked', 'unknown', 'expired']));
  });

  test('retried keys are 503 while the store is away, and are looked up when they retry again', async () => {
    const { app, keys } = await told(async (app) => [(await app.createKey('alice')).key, guess(4000)]);
    await using _ = app;
    const file = join(app.folder, 'keys.db');
    renameSync(file, `${file}.away`);
    expect((await present(app, keys)).map(({ status }) => status)).toEqual([503, 503]);
    renameSync(`${file}.away`, file);
    app.clock.advance(1000);
    await flood(app, 6000, 200);
    expect((await present(app, keys)).map(({ status }) => status)).toEqual([200, 401]);
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
    const responses = await Promise.all(keys.slice(start, start + 50).map((key) => app.useKey(key)));
    expect(responses.map(({ status }) => status)).toEqual(Array(50).fill(200));
  }
}, 60_000);

test('keys that could not be looked up use up no budget', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice');
  await app.useKey(key); // memory is current from here on: the clock stands
  await app.service.close();
  expect(statusesOf(await flood(app, 1, BURST + 50))).toEqual([503]);
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
    ['::ffff:c000:207', '192.0.2.7'],
    ['0:0:0:0:0:FFFF:192.0.2.7', '192.0.2.7'],
    ['64:ff9b::192.0.2.1', '192.0.2.1'],
    ['64:ff9b::c000:201', '192.0.2.1'],
    ['64:FF9B::C000:0201', '192.0.2.1'],
    ['0064:ff9b:0000:0000:0000:0000:c000:0201', '192.0.2.1'],
    ['64:ff9b:0:0:0:0:192.0.2.1', '192.0.2.1'],
    ['64:ff9b::255.255.255.255', '255.255.255.255'],
    ['64:ff9b::', '0.0.0.0'],
    ['64:ff9b::1:c000:201', '64:ff9b:0:0::/64'],
    ['64:ff9b:1::192.0.2.1', '64:ff9b:1:0:0:0:c000:201'],
    ['64:FF9B:0001:abcd:c0:2:2100::', '64:ff9b:1:abcd:c0:2:2100:0'],
    ['64:ff9b:2::192.0.2.1', '64:ff9b:2:0::/64'],
    ['unknown', 'unknown'],
    ['not:an:address', 'not:an:address'],
    ['1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7:8:9'],
    ['x::1', 'x::1'],
  ])('%s belongs to %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});
