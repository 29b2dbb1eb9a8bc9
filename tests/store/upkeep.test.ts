// Upkeep: what is old is removed, nothing younger is, and when that is done.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { removeOld } from '../../src/store/upkeep.ts';
import { childOf } from '../support/children.ts';
import { testClock } from '../support/clock.ts';
import { type Client, databaseOf, openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { placeOf } from '../support/fill.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startProxy } from '../support/proxy.ts';
import { startSqld } from '../support/sqld.ts';
import { startStore, storeOn } from '../support/store-mode.ts';
import { openEmbedded, record } from '../support/stores.ts';
import { startPrimary } from '../support/template.ts';
import { bearer, createTestApp } from '../support/test-app.ts';
import { advanceUntil, waitFor } from '../support/wait-for.ts';
import { insertCounted, openStill } from '../uses/shared-usage.ts';
import { announced, storedChildren } from './stored.ts';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
const CHANGES_KEPT_MAX = 500_000;
const KEPT = { eventDays: 400, usageDays: 62 };

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

/** Adds an old change, and a young one: the newest stays, whatever its age. */
async function addOld(database: Client): Promise<void> {
  await addChanges(database, 1, DAY_MS + 1);
  await addChanges(database, 1, 0);
}

const oldIn = async (database: Client) => {
  const sql = `SELECT count(*) AS old FROM changes WHERE changed_at_ms < unixepoch('subsec') * 1000 - ${DAY_MS}`;
  return Number((await database.execute(sql)).rows[0]?.old);
};

const clock = { nowMs: Date.now, monotonicMs: () => 0, after: () => () => {} };

const msAgo = (ms: number) => `CAST(unixepoch('subsec') * 1000 AS INTEGER) - ${ms}`;

/** Of each table two rows, the first of them old enough; each has its name in this column. */
const PAIRS = [
  {
    rows: 'hash AS name FROM codes',
    add: (name: string, ms: number) =>
      `INSERT INTO codes (hash, ends_at_ms, content) VALUES ('${name}', ${msAgo(ms)}, '')`,
    ages: [HOUR_MS + 1, HOUR_MS - 60_000],
  },
  {
    rows: 'instance AS name FROM exchanges',
    add: (name: string, ms: number) => `INSERT INTO exchanges VALUES ('${name}', 1, ${msAgo(ms)})`,
    ages: [7 * DAY_MS + 1, 7 * DAY_MS - 60_000],
  },
  {
    rows: 'owner AS name FROM key_events',
    add: (name: string, ms: number) =>
      `INSERT INTO key_events (at_ms, owner, kind, how) VALUES (${msAgo(ms)}, '${name}', 'changed', 'sql')`,
    ages: [KEPT.eventDays * DAY_MS + 1, KEPT.eventDays * DAY_MS - 60_000],
  },
  {
    rows: 'key_hash AS name FROM changes',
    add: (name: string, ms: number) => `INSERT INTO changes (key_hash, changed_at_ms) VALUES ('${name}', ${msAgo(ms)})`,
    ages: [DAY_MS + 1, DAY_MS - 60_000],
  },
] as const;

test.each(rows(['embedded', 'remote'] as const, 1))(
  'what is old is removed from every table of a store that is %s',
  async (mode) => {
    await using started = new AsyncDisposableStack();
    const path = join(temporaryFolder(), 'keys.db');
    const url = mode === 'remote' ? started.use(await startSqld()).url : `file:${path}`;
    const store = await openStill(
      mode === 'remote' ? { mode, url, authToken: null, replicaFile: null } : { mode, path },
    );
    started.defer(store.close);
    const database = openDatabase(url);
    started.defer(database.close);
    for (const { add, ages } of PAIRS) {
      await database.execute(add('old', ages[0]));
      await database.execute(add('young', ages[1]));
    }
    await removeOld(store.db, { clock, ...KEPT });
    for (const { rows } of PAIRS) {
      expect([rows, (await database.execute(`SELECT ${rows}`)).rows.map(({ name }) => name)]).toEqual([
        rows,
        ['young'],
      ]);
    }
  },
);

describe('events', () => {
  test('events that are old are removed, however many, no younger one, and never the newest', async () => {
    const path = join(temporaryFolder(), 'keys.db');
    await using opened = await openEmbedded(path);
    const database = openDatabase(`file:${path}`);
    const add = (count: number, ageMs: number) =>
      database.execute({
        sql: `INSERT INTO key_events (at_ms, owner, kind, how) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
SELECT unixepoch('subsec') * 1000 - ?, 'alice', 'changed', 'sql' FROM n`,
        args: [count, ageMs],
      });
    await add(1001, 3 * DAY_MS + 1000);
    await add(3, 2 * DAY_MS);
    const left = async () => {
      const { rows } = await database.execute('SELECT count(*) AS kept, min(seq) AS oldest FROM key_events');
      return { ...rows[0] };
    };
    await removeOld(opened.db, { clock, ...KEPT, eventDays: 3 });
    expect(await left()).toMatchObject({ kept: 3, oldest: 1002 });
    await removeOld(opened.db, { clock, ...KEPT, eventDays: 1 });
    expect(await left()).toMatchObject({ kept: 1, oldest: 1004 }); // the newest: its number is not given again
    await add(1001, 2 * DAY_MS); // as a restore puts them behind those that are there
    await add(1, 0);
    await database.execute("UPDATE key_events SET at_ms = unixepoch('subsec') * 1000 WHERE seq = 1004");
    await removeOld(opened.db, { clock, ...KEPT, eventDays: 1 });
    expect(await left()).toMatchObject({ kept: 2, oldest: 1004 });
    database.close();
  });

  test('an event that was written while the clock was behind takes no other with it', async () => {
    const path = join(temporaryFolder(), 'keys.db');
    await using opened = await openEmbedded(path);
    using database = openDatabase(`file:${path}`);
    for (const [owner, at] of [
      ['alice', msAgo(0)],
      ['bob', '0'],
      ['carol', msAgo(0)],
    ]) {
      await database.execute(
        `INSERT INTO key_events (at_ms, owner, kind, how) VALUES (${at}, '${owner}', 'changed', 'sql')`,
      );
    }
    await removeOld(opened.db, { clock, ...KEPT });
    const { rows } = await database.execute('SELECT owner FROM key_events ORDER BY seq');
    expect(rows.map(({ owner }) => owner)).toEqual(['alice', 'carol']);
  });
});

test('counts are removed that are old by the clocks of both, the process and the database', async () => {
  await using opened = await openEmbedded(join(temporaryFolder(), 'keys.db'));
  const { db, store } = opened;
  await insertCounted(store, { rateLimit: null, quota: null });
  const today = Math.floor(Date.now() / DAY_MS);
  const left = async (nowMs: number) => {
    await removeOld(db, { ...KEPT, clock: { ...clock, nowMs: () => nowMs } });
    return (await db.read({ sql: 'SELECT month FROM key_months ORDER BY month' })).map(({ month }) => Number(month));
  };
  const { month: oldest } = placeOf(today - KEPT.usageDays);
  for (const month of [oldest - 1, oldest])
    await db.write({ sql: 'INSERT INTO key_months (row, month, d1) VALUES (1, ?, 1)', args: [month] });
  // Windows that are over, longer and shorter than a day, and the same of an owner, whose number is below zero.
  await db.write({ sql: "INSERT INTO holders VALUES (7, 'alice')" });
  const nowS = Math.floor(Date.now() / 1000);
  for (const row of [1, -7]) {
    for (const [windowS, ago] of [
      [60, 13],
      [172_800, 2],
      [120, 0],
      [259_200, 0],
    ] as const) {
      await db.write({
        sql: 'INSERT INTO key_counts (row, window_s, number, uses) VALUES (?, ?, ?, 1)',
        args: [row, windowS, Math.floor(nowS / windowS) - ago],
      });
    }
  }
  const windowsLeft = async () => (await db.read({ sql: 'SELECT row FROM key_counts' })).length;
  expect(await left(Date.now() - 365 * DAY_MS)).toEqual([oldest - 1, oldest]);
  expect(await windowsLeft()).toBe(8);
  expect(await left(Date.now() + 365 * DAY_MS)).toEqual([oldest]);
  expect(await windowsLeft()).toBe(4);
});

test('an owner without keys goes with the last of his counts, and comes back with his next ones', async () => {
  await using opened = await openEmbedded(join(temporaryFolder(), 'keys.db'));
  const { db, store } = opened;
  const today = Math.floor(Date.now() / DAY_MS);
  const { month: oldest } = placeOf(today - KEPT.usageDays);
  for (const [row, owner, month] of [
    [1, 'gone', oldest - 1],
    [2, 'idle', oldest],
    [3, 'back', oldest - 1],
  ] as const) {
    await db.write({ sql: 'INSERT INTO holders VALUES (?, ?)', args: [row, owner] });
    await db.write({ sql: 'INSERT INTO key_months (row, month, d1) VALUES (?, ?, 1)', args: [-row, month] });
  }
  await removeOld(db, { clock, ...KEPT });
  const owners = async () =>
    (await db.read({ sql: 'SELECT owner FROM holders ORDER BY owner' })).map(({ owner }) => owner);
  expect(await owners()).toEqual(['idle']);
  await store.insert(record({ userId: 'back' }), 1000, { how: 'command', actor: null, requestId: null, address: null });
  const windows = [[null, 'back', DAY_MS / 1000, today, today, 5, null]] as const;
  await store.addUses({ instance: 'a process', number: 1, windows });
  expect(await owners()).toEqual(['back', 'idle']);
  expect(await store.totalsOf(windows)).toEqual([5]);
});

/** A row of each kind that is removed by its age, made now. */
const YOUNG = {
  codes: "INSERT INTO codes (hash, content, ends_at_ms) SELECT 'code', '', unixepoch() * 1000 + 600000",
  children: `INSERT INTO children (id, owner, key_hash, parent_id, parent_hash, name, scopes, created_at_ms, expires_at_ms)
SELECT 'id', 'alice', 'hash', 'parent', 'parent hash', 'n', '[]', unixepoch() * 1000, unixepoch() * 1000 + 60000`,
  exchanges: "INSERT INTO exchanges (instance, number) VALUES ('process', 1)",
  key_events: "INSERT INTO blocked_owners (owner) VALUES ('alice'), ('bob')",
  changes: "INSERT INTO blocked_owners (owner) VALUES ('carol'), ('dave')",
  key_counts: `INSERT INTO key_counts (row, window_s, number, uses)
SELECT 1, column1, unixepoch() / column1, 1 FROM (VALUES (60), (172800))`,
  key_months: "INSERT INTO key_months (row, month, d1) SELECT 1, strftime('%Y') * 12 + strftime('%m') - 1, 1",
};

test('a process whose clock is years ahead removes nothing that is young, of whatever kind', async () => {
  await using opened = await openEmbedded(join(temporaryFolder(), 'keys.db'));
  const { db, store } = opened;
  await store.insert(record({ id: 'id' }), 1000, { how: 'command', actor: null, requestId: null, address: null });
  for (const sql of Object.values(YOUNG)) await db.write({ sql });
  const counted = async () => {
    const counts: Record<string, number> = {};
    for (const table of Object.keys(YOUNG)) {
      const [row] = await db.read({ sql: `SELECT count(*) AS n FROM ${table}` });
      counts[table] = Number(row?.n);
    }
    return counts;
  };
  const before = await counted();
  expect(Object.values(before).every((count) => count > 0)).toBe(true);
  await removeOld(db, { ...KEPT, clock: { ...clock, nowMs: () => Date.now() + 3 * 365 * DAY_MS } });
  expect(await counted()).toEqual(before);
});

describe('the change feed', () => {
  /** What upkeep leaves after `prepare`. */
  async function pruned(prepare: (database: Client) => Promise<unknown>) {
    const path = join(temporaryFolder(), 'keys.db');
    await using opened = await openEmbedded(path);
    using database = openDatabase(`file:${path}`);
    await prepare(database);
    await removeOld(opened.db, { clock, ...KEPT });
    const left = await changesIn(database);
    return left;
  }

  test('changes are removed that are older than a day, however many there are, and no younger ones', async () => {
    const left = await pruned(async (database) => {
      await addChanges(database, 2500, DAY_MS + 1);
      await addChanges(database, 3, DAY_MS - 60_000);
    });
    expect(left).toEqual({ kept: 3, oldest: 2501, pruned: 2500 });
  });

  test('young changes are removed too, once there are half a million newer ones', async () => {
    const left = await pruned(async (database) => {
      await addChanges(database, 1000, 0);
      await addChangeAt(database, CHANGES_KEPT_MAX + 600);
    });
    expect(left).toEqual({ kept: 401, oldest: 601, pruned: 600 });
  });

  test('upkeep continues after a process died that had raised the mark', async () => {
    const left = await pruned(async (database) => {
      await addChanges(database, 2500, DAY_MS + 1);
      await addChanges(database, 3, 0);
      await database.execute('UPDATE feed SET pruned_seq = 2000');
    });
    expect(left).toEqual({ kept: 3, oldest: 2501, pruned: 2500 });
  });

  test('upkeep runs two seconds after the start, and again half an hour later at the earliest', async () => {
    await using app = await createTestApp({ store: 'embedded', clock: testClock(Date.now()) });
    using database = openDatabase(databaseOf(app));
    // In small steps, and a minute less: what goes by before the first run is seen brings the second one nearer.
    for (const [notAfterMs, stepMs] of [
      [2000 - 1, 1],
      [HOUR_MS / 2 - 60_000, 60_000],
    ] as const) {
      await addOld(database);
      app.clock.advance(notAfterMs);
      expect((await fetch(`${app.url}/`)).status).toBe(200); // it would have begun
      expect(await oldIn(database)).toBe(1);
      await advanceUntil(app.clock, async () => (await oldIn(database)) === 0, stepMs);
    }
  });

  test('upkeep runs again within the hour', async () => {
    await using app = await createTestApp({ store: 'embedded', clock: testClock(Date.now()) });
    using database = openDatabase(databaseOf(app));
    for (const withinMs of [2000, HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS]) {
      await addOld(database);
      app.clock.advance(withinMs);
      await waitFor(async () => (await oldIn(database)) === 0);
      expect((await fetch(`${app.url}/`)).status).toBe(200); // meanwhile the run has ended
    }
  });

  test('one process of a database does it for all, each task when it is due', async () => {
    await using store = await startStore('embedded');
    using database = openDatabase(store.env().DATABASE_URL ?? '');
    const clock = testClock(Date.now());
    const ranAt = async (task: string) =>
      Number((await database.execute(`SELECT at_ms FROM upkeep WHERE task = '${task}'`)).rows[0]?.at_ms);
    const setAt = (task: string, ms: number) =>
      database.execute(`UPDATE upkeep SET at_ms = ${clock.nowMs() - ms} WHERE task = '${task}'`);
    /** A process starts and comes to its upkeep; whether it has removed an old change. */
    async function doesIt(ends: () => Promise<boolean>) {
      await addOld(database);
      await using app = await createTestApp({ store, clock });
      clock.advance(2000);
      await waitFor(ends);
      await app.close();
      return (await oldIn(database)) === 0;
    }
    const isDone = async () => (await oldIn(database)) === 0;
    expect(await doesIt(isDone)).toBe(true);
    const countedAt = await ranAt('counts');
    await setAt('records', HOUR_MS / 2 + 1); // due, and counts aren't
    expect(await doesIt(isDone)).toBe(true);
    expect(await ranAt('counts')).toBe(countedAt);
    await setAt('counts', DAY_MS + 1);
    expect(await doesIt(async () => (await ranAt('counts')) === clock.nowMs())).toBe(false);
    await setAt('records', -DAY_MS); // written while a clock was ahead
    expect(await doesIt(isDone)).toBe(true);
  });

  test('a claim whose response was lost takes a task that is due, and none that is not', async () => {
    await using primary = await startPrimary();
    await using proxy = await startProxy(primary.url);
    using database = openDatabase(primary.url);
    const clock = testClock(Date.now());
    for (const old of [0, 1]) {
      await addOld(database);
      await database.execute("UPDATE upkeep SET at_ms = 0 WHERE task = 'counts'"); // due each time, and comes last
      proxy.loseResponseTo('UPDATE upkeep');
      const scans = proxy.sent('max(h.row)');
      await using _ = await createTestApp({ store: storeOn({ DATABASE_URL: proxy.url }), clock });
      clock.advance(2000);
      await waitFor(() => proxy.sent('max(h.row)') > scans);
      expect(await oldIn(database)).toBe(old);
    }
    expect(proxy.sent('UPDATE upkeep')).toBe(6); // two tasks twice, and the two lost
  });

  test('upkeep runs at once when a poll finds far too many changes', async () => {
    await using app = await createTestApp({ store: 'embedded', clock: testClock(Date.now()) });
    const { key, id } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    using database = openDatabase(databaseOf(app));
    await addOld(database);
    app.clock.advance(2000);
    await waitFor(async () => (await oldIn(database)) === 0); // removed after the start; the next time is in an hour
    await addChanges(database, 1000, 0);
    await addChangeAt(database, 1.1 * CHANGES_KEPT_MAX + 2);
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice')); // polls, as every change does
    await waitFor(async () => (await changesIn(database)).kept === 2);
    expect((await app.useKey(key)).status).toBe(401);
  });
});

test('a backup has no children, a restore ends all; upkeep removes them a day after their end, and announces nothing', async () => {
  const first = await createTestApp({ store: 'embedded' });
  const parent = await first.createKey('alice', { scopes: ['read', 'delegate'] });
  const child = await childOf(first, parent.key, { expires_in: '60' });
  const file = join(first.folder, 'backup.db');
  await first.keys('backup', file);
  const rows = (path: string) => storedChildren(`file:${path}`);
  expect([(await rows(file)).length, (await rows(join(first.folder, 'keys.db'))).length]).toEqual([0, 1]);
  await first.close();
  await first.keys('restore', file, '--yes');
  await using app = await createTestApp({ store: 'embedded', folder: first.folder });
  expect([(await app.useKey(child.key)).status, (await app.useKey(parent.key)).status]).toEqual([401, 200]);
  await childOf(app, parent.key, { expires_in: '60' });
  const ended = await childOf(app, parent.key);
  await app.call('revoke_api_key', { keyId: ended.id }, await bearer(app, 'alice'));
  const before = await announced(databaseOf(app));
  await using opened = await openEmbedded(join(app.folder, 'keys.db'));
  const at = (ms: number) => ({ ...KEPT, clock: { ...app.clock, nowMs: () => app.clock.nowMs() + ms } });
  await removeOld(opened.db, at(DAY_MS + 1));
  expect((await storedChildren(databaseOf(app))).length).toBe(1); // which ended a minute later
  await removeOld(opened.db, at(DAY_MS + 61_000));
  expect(await storedChildren(databaseOf(app))).toEqual([]);
  expect((await announced(databaseOf(app))).filter((hash) => !before.includes(hash))).toEqual([]);
});
