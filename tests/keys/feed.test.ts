// How long the change feed proves that memory is current, and what a process that missed changes does.

import { describe, expect, test } from 'bun:test';
import type { FeedPage } from '../../src/ground/change-feed.ts';
import { StoreOutage } from '../../src/ground/result.ts';
import { countingSleep } from '../../src/ground/runtime.ts';
import { Feed } from '../../src/keys/feed.ts';
import type { KeyStore } from '../../src/keys/store.ts';
import { type Clock, createLog } from '../../src/start/package/index.ts';
import { testClock } from '../support/clock.ts';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

describe('memory is current', () => {
  const NOTHING_NEW: FeedPage = {
    databaseId: 'd',
    prunedSeq: 0,
    mark: null,
    newestSeq: 0,
    newestMark: null,
    holdsForeign: false,
    holdsRules: false,
    changes: [],
  };

  /** A feed with a bound of a second, over a store that only responds to polls. */
  function feedOver(changesAfter: () => Promise<FeedPage>, clock: Clock = testClock()) {
    const log = createLog({ level: 'error', clock, write: async () => {} });
    const store = { changesAfter } as unknown as KeyStore;
    const feed = new Feed({ store, clock, log, revocationLagMaxMs: 1000 });
    return Object.assign(feed, { [Symbol.dispose]: feed.stop });
  }

  test('memory counts as current for the bound less 25 ms, from when the poll began and not from its response', async () => {
    const clock = testClock();
    using feed = feedOver(async () => {
      clock.advance(500);
      return NOTHING_NEW;
    }, clock);
    await feed.refresh();
    clock.advance(475);
    expect(feed.isCurrentForUse()).toBe(true);
    clock.advance(1);
    expect(feed.isCurrentForUse()).toBe(false);
  });

  test('in an outage that a poll has met within the bound, what the last page said of rules counts without another', async () => {
    const clock = testClock();
    let polls = 0;
    let away = false;
    using feed = feedOver(async () => {
      polls += 1;
      if (away) throw new StoreOutage('away');
      return { ...NOTHING_NEW, holdsRules: true };
    }, clock);
    expect(await feed.holdsRules()).toBe(true);
    away = true;
    clock.advance(976);
    expect(await feed.holdsRules()).toBe(true); // by a poll, which fails
    const before = polls;
    expect(feed.holdsRules()).toBe(true);
    expect(feed.mayBeForeign('key-of-another-system-0123456789')).toBe(false);
    expect(polls).toBe(before);
    clock.advance(976);
    away = false;
    expect(await feed.holdsRules()).toBe(true);
    expect(polls).toBeGreaterThan(before);
  });

  test('memory does not count as current after a mutation whose change could not be read', async () => {
    let away = false;
    using feed = feedOver(async () => {
      if (away) throw new StoreOutage('away');
      return NOTHING_NEW;
    });
    await feed.refresh();
    expect(feed.isCurrentForUse()).toBe(true);
    away = true;
    await feed.refresh();
    expect(feed.isCurrentForUse()).toBe(false);
  });

  test('changes are passed to a cache in one call for each page, so that it is walked once', async () => {
    const changes = ['owner:a', 'c', 'owner:b'].map((changed, index) => ({ seq: index + 1, changed, mark: changed }));
    const page: FeedPage = { ...NOTHING_NEW, newestSeq: 3, newestMark: 'owner:b', changes };
    using feed = feedOver(async () => (feed.position.databaseId === '' ? NOTHING_NEW : page));
    const told: unknown[] = [];
    feed.subscribe({ onChanges: (hashes, owners) => void told.push([hashes, owners]), onReset() {} });
    await feed.refresh();
    await feed.refresh();
    expect(told).toEqual([[['c'], ['a', 'b']]]);
  });

  test('memory is current after a mutation only by a poll that began after it', async () => {
    const polls: ((page: FeedPage) => void)[] = [];
    using feed = feedOver(() => new Promise((resolve) => polls.push(resolve)));
    const before = feed.ensureFresh();
    const after = feed.refresh();
    polls[0]?.(NOTHING_NEW);
    await before;
    await Bun.sleep(0);
    expect(polls).toHaveLength(2);
    polls[1]?.(NOTHING_NEW);
    await after;
  });

  test('a poll for a cursor that is ahead begins after it came, and its failure leaves memory as it was', async () => {
    const polls: PromiseWithResolvers<FeedPage>[] = [];
    using feed = feedOver(() => {
      polls.push(Promise.withResolvers<FeedPage>());
      return polls.at(-1)?.promise ?? Promise.reject();
    });
    const before = feed.ensureFresh();
    const both = Promise.allSettled([feed.pollNow(), feed.pollNow()]);
    polls[0]?.resolve(NOTHING_NEW);
    await before;
    await Bun.sleep(0);
    expect(polls).toHaveLength(2);
    polls[1]?.reject(new StoreOutage('away'));
    expect((await both).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(feed.isCurrentForUse()).toBe(true);
  });

  test('a poll that was under way during a sleep proves nothing', async () => {
    const inner = testClock();
    const polls: ((page: FeedPage) => void)[] = [];
    using feed = feedOver(() => new Promise((resolve) => polls.push(resolve)), countingSleep(inner));
    const current = feed.ensureFresh();
    inner.sleep(3_600_000);
    polls[0]?.(NOTHING_NEW);
    await Bun.sleep(0);
    expect(feed.isCurrentForUse()).toBe(false);
    expect(polls).toHaveLength(2);
    polls[1]?.(NOTHING_NEW);
    await current;
    expect(feed.isCurrentForUse()).toBe(true);
  });
});

/** What keeps the change with seq 2 from a process that has seen seq 1. */
const MISSED: [string, string[]][] = [
  ['it was pruned', ['DELETE FROM changes', 'UPDATE feed SET pruned_seq = 2']],
  ['the database was put back', ['DELETE FROM changes']],
  [
    'the database that was put back has another id',
    ['DELETE FROM changes', 'UPDATE feed SET pruned_seq = 1, database_id = lower(hex(randomblob(16)))'],
  ],
];

test.each(MISSED)(
  'a revocation that a process cannot see (%s) takes effect within the bound',
  async (_, statements) => {
    await using app = await createTestApp({ store: 'embedded' });
    const other = await app.createKey('alice');
    await app.call('revoke_api_key', { keyId: other.id }, await bearer(app, 'alice')); // seq 1
    const { key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    using database = openDatabase(databaseOf(app));
    await database.batch(['UPDATE api_keys SET active = 0', ...statements]);
    app.clock.advance(1000);
    expect((await app.useKey(key)).status).toBe(401);
  },
);

test.each([499, 500, 1200, 6000])(
  'a revocation that comes after %d other changes counts when they are read',
  async (others) => {
    await using app = await createTestApp({ store: 'embedded' });
    const { key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    const database = openDatabase(databaseOf(app));
    const insert = `INSERT INTO changes (key_hash, changed_at_ms) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
WHERE i < ${others}) SELECT 'other', unixepoch() * 1000 FROM n`;
    await database.batch([insert, 'UPDATE api_keys SET active = 0']);
    database.close();
    app.clock.advance(1000);
    expect((await app.useKey(key)).status).toBe(401);
  },
);
