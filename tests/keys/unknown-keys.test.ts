// What a flood of unknown keys may cost, and what it leaves to honest callers.

import { describe, expect, test } from 'bun:test';
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { networkOf } from '../../src/ground/ip.ts';
import { LIMITS } from '../../src/ground/limits/index.ts';
import { createTokenBuckets } from '../../src/ground/limits/rates.ts';
import type { Caller } from '../../src/keys/actor.ts';
import type { Found } from '../../src/keys/store.ts';
import { createUnknownKeys } from '../../src/keys/unknown-keys.ts';
import { testClock } from '../support/clock.ts';
import { collectedLog } from '../support/collected-log.ts';
import { startSlowStore } from '../support/slow-store.ts';
import { AS_OF, record } from '../support/stores.ts';
import { bearer, COUNTED, createTestApp, NO_CONNECTION, type TestApp, type TestResponse } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const { burst: BURST } = LIMITS.unknownKeys;
const STATEMENT_KEYS_MAX = 500;
const PAUSE_MS = 25;
const LOADERS_MAX = 8;
const SHARED_PLACES = 5000;
const guess = (n: number) => `sk_test_${n.toString(16).padStart(64, '0')}`;
const guesses = (from: number, count: number) => Array.from({ length: count }, (_, n) => guess(from + n));

/**
 * Presents these keys, `atOnce` at a time: fewer than 256, which is all that the runtime sends at once, so that the app's
 * own requests to a remote store don't wait for these.
 */
async function present(app: TestApp, keys: readonly string[], atOnce = 10): Promise<TestResponse[]> {
  const responses: TestResponse[] = [];
  for (let start = 0; start < keys.length; start += atOnce) {
    responses.push(...(await Promise.all(keys.slice(start, start + atOnce).map((key) => app.useKey(key)))));
  }
  return responses;
}

/** Presents unknown keys, which takes the budget of this address as far as it goes. */
const flood = (app: TestApp, from: number, count: number) => present(app, guesses(from, count));

const statusesOf = (responses: readonly TestResponse[]) => [...new Set(responses.map(({ status }) => status))];

test('a flood from one address is read up to the budget, then each 25 ms at most; honest keys are served at once', async () => {
  await using app = await createTestApp({ env: COUNTED });
  const known = await app.createKey('alice');
  const unseen = await Promise.all(Array.from({ length: 10 }, () => app.createKey('bob')));
  expect((await app.useKey(known.key)).status).toBe(200);
  expect(statusesOf(await flood(app, 1, BURST))).toEqual([401]);
  const before = await app.storeReads();
  const startedAtMs = performance.now();
  expect(statusesOf(await present(app, guesses(5000, 200), 200))).toEqual([401]);
  const statementsMax = (performance.now() - startedAtMs) / PAUSE_MS + 1;
  expect((await app.storeReads()) - before).toBeLessThanOrEqual(statementsMax);
  const [, ...served] = await Promise.all([
    flood(app, 6000, 400),
    app.useKey(known.key),
    ...unseen.map(({ key }) => app.useKey(key)),
  ]);
  expect(statusesOf(served)).toEqual([200]);
});

describe('keys that are read together', () => {
  test('each get their own result, for fewer reads than they are', async () => {
    await using app = await createTestApp({ store: 'embedded', env: { ...COUNTED, REVOCATION_LAG_MAX_MS: '60000' } });
    const alice = await bearer(app, 'alice');
    const [good, revoked, deleted] = [
      await app.createKey('alice'),
      await app.createKey('alice'),
      await app.createKey('alice'),
    ];
    const expired = await app.createKey('alice', { expiresInDays: 1e-6 });
    await app.call('revoke_api_key', { keyId: revoked.id }, alice);
    await app.call('delete_api_key', { keyId: deleted.id }, alice);
    app.clock.advance(1000);
    await flood(app, 1, BURST);
    const keys = [good.key, revoked.key, deleted.key, expired.key, guess(4000)];
    const before = await app.storeReads();
    expect((await present(app, keys)).map(({ status }) => status)).toEqual([200, 401, 401, 401, 401]);
    const together = await app.storeReads();
    expect(together - before).toBeLessThan(keys.length);
    // Found keys are remembered, and wrong ones are refused from memory for a while.
    const responses = await present(app, keys);
    expect(responses.map(({ status }) => status)).toEqual([200, 401, 401, 401, 401]);
    expect(new Set(responses.slice(1).map(({ body }) => body.code))).toEqual(new Set(['invalid_api_key']));
    expect(await app.storeReads()).toBe(together);
    const reasons = (await app.log()).filter(({ event }) => event === 'Invalid or expired API key').slice(-8);
    expect(new Set(reasons.map(({ reason }) => reason))).toEqual(new Set(['revoked', 'unknown', 'expired']));
  });

  test('known ones are read again together, and take from no budget', async () => {
    await using app = await createTestApp({ store: 'embedded', env: COUNTED });
    const keys = await Promise.all(Array.from({ length: 100 }, async () => (await app.createKey('alice')).key));
    expect(statusesOf(await present(app, keys))).toEqual([200]);
    app.clock.advance(5 * 60_000);
    await flood(app, 5000, BURST);
    const before = await app.storeReads();
    expect(statusesOf(await present(app, keys, 100))).toEqual([200]);
    expect((await app.storeReads()) - before).toBeLessThan(50);
  });

  test('are 503 while the store is away, and are read again when it is back', async () => {
    await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
    const keys = [(await app.createKey('alice')).key, guess(4000)];
    await flood(app, 1, BURST);
    const file = join(app.folder, 'keys.db');
    renameSync(file, `${file}.away`);
    expect((await present(app, keys)).map(({ status }) => status)).toEqual([503, 503]);
    renameSync(`${file}.away`, file);
    expect((await present(app, keys)).map(({ status }) => status)).toEqual([200, 401]);
  });
});

interface Counted {
  readonly slow?: (keyHash: string) => Promise<unknown>;
  /** What keys are whose names begin with `good`; none unless given. */
  readonly good?: Found['record'];
}

/** Unknown keys over a store that waits for `slow`, if given; and the statements it was asked. */
function counted({ slow, good = null }: Counted = {}) {
  const clock = testClock();
  const statements: (readonly string[])[] = [];
  const found = (keyHash: string): Found => ({
    record: keyHash.startsWith('good') ? good : null,
    position: { databaseId: 'd', seq: 1 },
    counts: null,
    ownerCounts: null,
    asOf: AS_OF,
  });
  const { log, lines } = collectedLog('warn', clock);
  const unknownKeys = createUnknownKeys(
    async (keyHashes) => {
      statements.push(keyHashes);
      await Promise.all(keyHashes.map((keyHash) => slow?.(keyHash)));
      return found;
    },
    'any',
    createTokenBuckets(LIMITS.unknownKeys, clock),
    clock,
    log,
  );
  const find = (name: string, source = 'a') => unknownKeys.find(name, callerAt(source));
  /** Takes a source's budget. */
  const drain = async (source = 'a') => {
    for (let n = 0; n < BURST; n += 1) await find(`drain ${n}`, source);
    statements.length = 0;
  };
  /** How long this many statements of a source take, one after the other. */
  const timeOf = async (count: number) => {
    const startedAtMs = performance.now();
    for (let n = 0; n < count; n += 1) await find(`timed ${n}`);
    return performance.now() - startedAtMs;
  };
  return { find, unknownKeys, drain, timeOf, statements, clock, lines };
}

const GOOD: Found['record'] = {
  ...record(),
  presented: 'in_force',
  presentedHash: record().keyHash,
  secretEndsAtMs: null,
  barred: null,
  parent: null,
  ownerSettings: null,
};

const callerAt = (address: string): Caller => ({ requestId: 'r', clientAddress: () => address });

const names = (count: number, name: string) => Array.from({ length: count }, (_, n) => `${name} ${n}`);

describe('statements for unknown keys', () => {
  test.each([
    ['within its budget', false],
    ['beyond it', true],
  ])('of one source follow each other, each with those who came meanwhile, %s', async (_, isUsedUp) => {
    const slow = Promise.withResolvers<void>();
    const { find, drain, statements } = counted({ slow: async (key) => key === 'first' && slow.promise });
    if (isUsedUp) await drain();
    const first = find('first');
    await waitFor(() => statements.length === 1);
    const others = names(3, 'other').map((name) => find(name));
    slow.resolve();
    await Promise.all([first, ...others]);
    await find('last');
    expect(statements).toEqual([['first'], names(3, 'other'), ['last']]);
  });

  test('follow at once within the budget, and not sooner than 25 ms beyond it; a second brings 200 back', async () => {
    const { clock, drain, timeOf } = counted();
    await drain();
    const beyondMs = 4 * (PAUSE_MS - 1); // timers are early by up to a millisecond
    expect(await timeOf(5)).toBeGreaterThan(beyondMs);
    clock.advance(1000);
    expect(await timeOf(200)).toBeLessThan(200 * PAUSE_MS);
    expect(await timeOf(5)).toBeGreaterThan(beyondMs);
  });

  test('of one source never hold up those of another', async () => {
    const slow = Promise.withResolvers<void>();
    const { find, drain } = counted({ slow: async (key) => key === 'slow' && slow.promise });
    await drain('a');
    await drain('b');
    const waiting = find('slow', 'a');
    expect((await find('quick', 'b')).ok).toBe(true);
    slow.resolve();
    expect((await waiting).ok).toBe(true);
  });

  test('are at most 8 at the same time: keys of further networks are read together', async () => {
    const slow = Promise.withResolvers<void>();
    const { find, statements } = counted({ slow: () => slow.promise });
    const all = names(100, 'source').map((source) => find(`of ${source}`, source));
    await waitFor(() => statements.length === LOADERS_MAX + 1);
    slow.resolve();
    expect((await Promise.all(all)).filter(({ ok }) => ok)).toHaveLength(100);
    expect(statements.map(({ length }) => length)).toEqual([...Array(LOADERS_MAX).fill(1), 92]);
    expect((await find('after', 'source 99')).ok).toBe(true);
    expect(statements.at(-1)).toEqual(['after']);
  });

  test('of further networks are shared, with 5,000 places', async () => {
    const { find, statements } = counted();
    const flood = names(LOADERS_MAX + SHARED_PLACES + 1000, 'source').map((source) => find(`of ${source}`, source));
    const results = await Promise.all(flood);
    expect(results.filter(({ ok }) => ok)).toHaveLength(LOADERS_MAX + SHARED_PLACES);
    expect(statements.map(({ length }) => length)).toEqual([...Array(LOADERS_MAX).fill(1), ...Array(10).fill(500)]);
  });

  test('have a place for each key within the budget, however many come at once', async () => {
    const { find, statements } = counted();
    const all = await Promise.all(names(BURST + STATEMENT_KEYS_MAX, 'key').map((name) => find(name)));
    expect(all.filter(({ ok }) => ok)).toHaveLength(BURST + STATEMENT_KEYS_MAX);
    expect(statements.map(({ length }) => length)).toEqual([500, 500, 500]);
  });

  test('of good keys take nothing from the budget, and bring nothing to it', async () => {
    const { find, drain, timeOf } = counted({ good: GOOD });
    for (const name of names(BURST, 'good')) await find(name);
    const all = await Promise.all(names(BURST + STATEMENT_KEYS_MAX, 'good').map((name) => find(name)));
    expect(all.filter(({ ok }) => ok)).toHaveLength(BURST + STATEMENT_KEYS_MAX);
    await drain();
    for (const name of names(2, 'good')) await find(name);
    expect(await timeOf(2)).toBeGreaterThan(PAUSE_MS - 1); // the first is beyond the budget already
  });

  test('have 500 places, which are drawn when more come: being early or late does not help', async () => {
    const { find, drain } = counted();
    await drain();
    const count = 4 * STATEMENT_KEYS_MAX;
    let served = Array<number>(4).fill(0);
    for (let round = 0; round < 10; round += 1) {
      const results = await Promise.all(names(count, `key ${round}`).map((name) => find(name)));
      const good = results.map(({ ok }) => Number(ok));
      expect(good.reduce((sum, one) => sum + one)).toBe(STATEMENT_KEYS_MAX);
      served = served.map(
        (sum, n) => sum + good.slice(n * STATEMENT_KEYS_MAX, (n + 1) * STATEMENT_KEYS_MAX).reduce((a, b) => a + b),
      );
    }
    for (const sum of served) expect(Math.abs(sum - (10 * STATEMENT_KEYS_MAX) / 4)).toBeLessThan(300); // 10 standard deviations
  });

  test.each([
    ['its network', callerAt('192.0.2.1'), { address: '192.0.2.1' }],
    ['the key that asks', { ...callerAt('192.0.2.1'), lookupKeyId: 'id' }, { keyId: 'id' }],
  ])(
    'have no place for more: rate_limited, for a second, and a line of the log a second, of %s',
    async (_, caller, of) => {
      const { unknownKeys, clock, lines } = counted();
      const over = async () => {
        const found = await Promise.all(
          names(BURST + STATEMENT_KEYS_MAX + 20, 'key').map((name) => unknownKeys.find(name, caller)),
        );
        return found.filter(({ ok }) => !ok);
      };
      const refused = await over();
      expect(refused.length).toBeGreaterThan(0);
      expect(refused).toEqual(refused.map(() => ({ ok: false, error: { code: 'rate_limited', retryAfterS: 1 } })));
      clock.advance(1000);
      await over();
      expect(await lines()).toMatchObject([
        { level: 'warn', event: 'Too many unknown keys', ...of, suppressed: 0 },
        { level: 'warn', event: 'Too many unknown keys', ...of, suppressed: refused.length - 1 },
      ]);
    },
  );

  test('that throw reject everyone who waits, and later keys are read again', async () => {
    let broken = false;
    const { find, drain } = counted({
      slow: async () => {
        if (broken) throw new Error('a bug');
      },
    });
    await drain();
    broken = true;
    const failed = await Promise.allSettled([find('x'), find('y')]);
    expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    broken = false;
    expect((await find('x')).ok).toBe(true);
  });
});

test('keys that could not be read use up the budget too', async () => {
  await using app = await createTestApp({ env: COUNTED });
  const { key } = await app.createKey('alice');
  await app.useKey(key); // memory is current from here on: the clock stands
  await app.loseStore();
  expect(statusesOf(await flood(app, 1, BURST))).toEqual([503]);
  const before = await app.storeReads();
  expect(statusesOf(await present(app, guesses(5000, 100), 100))).toEqual([503]);
  expect((await app.storeReads()) - before).toBeLessThan(100);
});

test('an outage is one line of the log, however many meet it, and another once a minute has passed without', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice');
  await app.useKey(key);
  await app.loseStore();
  const lines = async () => (await app.log()).filter(({ event }) => event === 'key store out of reach').length;
  await flood(app, 1, 50);
  expect(await lines()).toBe(1);
  app.clock.advance(59_999);
  await flood(app, 100, 50);
  expect(await lines()).toBe(1);
  app.clock.advance(60_000);
  await flood(app, 200, 1);
  expect(await lines()).toBe(2);
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

/** A read may take as long as a test holds it up. */
const PATIENT = { REVOCATION_LAG_MAX_MS: '60000', LOG_LEVEL: 'error' };

test('a key that comes from two addresses at once is refused to neither because the other has no place left', async () => {
  await using slow = await startSlowStore();
  await using elsewhere = await createTestApp({ store: slow.store });
  await using app = await createTestApp({ store: slow.store, env: { ...PATIENT, TRUST_PROXY: '1' } });
  const { key } = await elsewhere.createKey('alice');
  const flooded = '192.0.2.1';
  const verify = async (presented: string, address: string) => {
    const headers = { 'x-api-key': presented, 'x-forwarded-for': address };
    return (await app.handler.fetch(new Request(`${app.url}/verify`, { headers }), NO_CONNECTION)).status;
  };
  let without = 0;
  const floods = (from: number, count: number) =>
    guesses(from, count).map(async (guessed) => {
      if ((await verify(guessed, flooded)) === 429) without += 1;
    });
  const read = slow.delayResponseTo('presented_hash');
  const flood = floods(1, 1);
  await read.made;
  flood.push(...floods(2, BURST + STATEMENT_KEYS_MAX));
  const [refused, good] = [verify(key, flooded), verify(key, '192.0.2.2')];
  flood.push(...floods(5000, 10 * STATEMENT_KEYS_MAX)); // one of them takes the key's place, nearly always
  await waitFor(() => without >= 10 * STATEMENT_KEYS_MAX); // all have come
  read.release();
  expect([200, 429]).toContain(await refused);
  expect(await good).toBe(200);
  await Promise.all(flood);
});

test('a key that nobody has is refused, too, if a change is polled while it is looked up', async () => {
  await using slow = await startSlowStore();
  await using app = await createTestApp({ store: slow.store, env: PATIENT });
  const { id: keyId } = await app.createKey('alice');
  const [guessed = ''] = guesses(1, 1);
  const read = slow.delayReadOf(guessed);
  const used = app.useKey(guessed);
  await read.made;
  await app.call('delete_api_key', { keyId }, await bearer(app, 'alice'));
  read.release();
  expect((await used).status).toBe(401);
});
