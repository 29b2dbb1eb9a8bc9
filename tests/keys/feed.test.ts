// How long the change feed proves that memory is current, what a process that missed changes does, and the feed's
// upkeep.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { FeedPage } from '../../src/ground/change-feed.ts';
import { StoreOutage } from '../../src/ground/outage.ts';
import { createFeed } from '../../src/keys/feed.ts';
import type { KeyStore } from '../../src/keys/store.ts';
import { prune } from '../../src/store/feed.ts';
import { createLog } from '../../src/watch/log.ts';
import { testClock } from '../support/clock.ts';
import { type Client, openDatabase } from '../support/database-client.ts';
import { openEmbedded } from '../support/embedded.ts';
import { temporaryFolder } from '../support/folder.ts';
import { bearer, createTestApp } from '../support/test-app.ts';
import { advanceUntil, waitFor } from '../support/wait-for.ts';

describe('memory is current', () => {
  const NOTHING_NEW: FeedPage = {
    databaseId: 'd',
    prunedSeq: 0,
    mark: null,
    newestSeq: 0,
    newestMark: null,
    changes: [],
  };

  /** A feed with a bound of a second, over a store that only responds to polls. */
  function feedOver(changesAfter: () => Promise<FeedPage>, clock = testClock()) {
    const log = createLog({ level: 'error', clock, write: async () => {} });
    const store = { changesAfter } as unknown as KeyStore;
    const feed = createFeed({ store, clock, log, lagMaxMs: 1000 });
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
    expect(feed.current()).toBe(true);
    clock.advance(1);
    expect(feed.current()).toBe(false);
  });

  test('memory does not count as current after a mutation whose change could not be read', async () => {
    let away = false;
    using feed = feedOver(async () => {
      if (away) throw new StoreOutage('away');
      return NOTHING_NEW;
    });
    await feed.refresh();
    expect(feed.current()).toBe(true);
    away = true;
    await feed.refresh();
    expect(feed.current()).toBe(false);
  });

  test('changes are passed to a cache in one call for each page, so that it is walked once', async () => {
    const changes = ['owner:a', 'c', 'owner:b'].map((changed, index) => ({ seq: index + 1, changed, mark: changed }));
    const page: FeedPage = { databaseId: 'd', prunedSeq: 0, mark: null, newestSeq: 3, newestMark: 'owner:b', changes };
    using feed = feedOver(async () => (feed.position.databaseId === '' ? NOTHING_NEW : page));
    const told: unknown[] = [];
    feed.subscribe({ onChanges: (...changed) => void told.push(changed), onReset() {} });
    await feed.refresh();
    await feed.refresh();
    expect(told).toEqual([[['c'], new Set(['a', 'b'])]]);
  });

  test('many health probes of a failing store within a moment cost one query', async () => {
    let polls = 0;
    let away = true;
    const clock = testClock();
    using feed = feedOver(async () => {
      polls += 1;
      if (away) throw new StoreOutage('away');
      return NOTHING_NEW;
    }, clock);
    for (let asked = 0; asked < 1000; asked += 1) expect(await feed.probe()).toBe(false);
    expect(polls).toBe(1);
    away = false;
    clock.advance(62);
    expect(await feed.probe()).toBe(false);
    clock.advance(1); // a sixteenth of the bound
    expect(await feed.probe()).toBe(true);
    expect(polls).toBe(2);
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
    const database = openDatabase(`file:${join(app.folder, 'keys.db')}`);
    await database.batch(['UPDATE api_keys SET active = 0', ...statements]);
    database.close();
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
    const database = openDatabase(`file:${join(app.folder, 'keys.db')}`);
    const insert = `INSERT INTO changes (key_hash, changed_at_ms) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
WHERE i < ${others}) SELECT 'other', unixepoch() * 1000 FROM n`;
    await database.batch([insert, 'UPDATE api_keys SET active = 0']);
    database.close();
    app.clock.advance(1000);
    expect((await app.useKey(key)).status).toBe(401);
  },
);

const DAY_MS = 24 * 60 * 60 * 1000;
const HOUR_MS = DAY_MS / 24;
const CHANGES_KEPT_MAX = 500_000;

/** Adds `count` changes of this age. */
const addChanges = (database: Client, count: number, ageMs: number) =>
  database.execute({
    sql: `INSERT INTO changes (key_hash, changed_at_ms) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
SELECT 'hash', unixepoch('subsec') * 1000 - ? FROM n`,
    args: [count, ageMs],
  });

/** Adds one change after so many others that nobody wrote. */
const addChangeAt = (database: Client, seq: number) =>
  database.execute({ sql: "INSERT INTO changes VALUES (?, 'hash', unixepoch('subsec') * 1000)", args: [seq] });

const changesIn = async (database: Client) => {
  const { rows } = await database.execute(
    'SELECT count(*) AS kept, min(seq) AS oldest, (SELECT pruned_seq FROM feed) AS pruned FROM changes',
  );
  return { ...rows[0] };
};

const EVENTS_KEPT_MS = 400 * 24 * 3_600_000;

describe('pruning', () => {
  /** What is left after `prepare` and pruning. */
  async function pruned(prepare: (database: Client) => Promise<unknown>) {
    const path = join(temporaryFolder(), 'keys.db');
    const opened = await openEmbedded(path);
    const database = openDatabase(`file:${path}`);
    await prepare(database);
    expect(await prune(opened.db, EVENTS_KEPT_MS)).toBe(true);
    expect(await prune(opened.db, EVENTS_KEPT_MS)).toBe(false);
    const left = await changesIn(database);
    database.close();
    await opened.close();
    return left;
  }

  test('pruning removes changes older than a day, however many there are, and no younger ones', async () => {
    const left = await pruned(async (database) => {
      await addChanges(database, 2500, DAY_MS + 1);
      await addChanges(database, 3, DAY_MS - 60_000);
    });
    expect(left).toEqual({ kept: 3, oldest: 2501, pruned: 2500 });
  });

  test('pruning removes young changes too, once there are half a million newer ones', async () => {
    const left = await pruned(async (database) => {
      await addChanges(database, 1000, 0);
      await addChangeAt(database, CHANGES_KEPT_MAX + 600);
    });
    expect(left).toEqual({ kept: 401, oldest: 601, pruned: 600 });
  });

  test('pruning continues after a process died that had raised the mark', async () => {
    const left = await pruned(async (database) => {
      await addChanges(database, 2500, DAY_MS + 1);
      await addChanges(database, 3, 0);
      await database.execute('UPDATE feed SET pruned_seq = 2000');
    });
    expect(left).toEqual({ kept: 3, oldest: 2501, pruned: 2500 });
  });

  test('pruning runs two seconds after the start, and again half an hour later at the earliest', async () => {
    await using app = await createTestApp({ store: 'embedded' });
    const database = openDatabase(`file:${join(app.folder, 'keys.db')}`);
    const kept = async () => (await changesIn(database)).kept;
    // In small steps, and a minute less: what goes by before the first pruning is seen brings the second one nearer.
    for (const [notAfterMs, stepMs] of [
      [2000 - 1, 1],
      [HOUR_MS / 2 - 60_000, 60_000],
    ] as const) {
      await addChanges(database, 1, DAY_MS + 1);
      app.clock.advance(notAfterMs);
      expect((await fetch(`${app.url}/`)).status).toBe(200); // pruning would have begun
      expect(await kept()).toBe(1);
      await advanceUntil(app.clock, async () => (await kept()) === 0, stepMs);
    }
    database.close();
  });

  test('pruning runs at once when a poll finds far too many changes', async () => {
    await using app = await createTestApp({ store: 'embedded' });
    const { key, id } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    const database = openDatabase(`file:${join(app.folder, 'keys.db')}`);
    await addChanges(database, 1, DAY_MS + 1);
    app.clock.advance(2000);
    await waitFor(async () => (await changesIn(database)).kept === 0); // pruned after the start; the next time is in an hour
    await addChanges(database, 1000, 0);
    await addChangeAt(database, 1.1 * CHANGES_KEPT_MAX + 2);
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice')); // polls, as every change does
    await waitFor(async () => (await changesIn(database)).kept === 2);
    expect((await app.useKey(key)).status).toBe(401);
    database.close();
  });
});
