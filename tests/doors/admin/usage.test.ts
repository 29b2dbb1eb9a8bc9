// `keys usage`: what a month cost, also of keys that were deleted; and `keys revoke --unused-for`.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { addUses } from '../../store/stored.ts';
import { testClock } from '../../support/clock.ts';
import { executeAt } from '../../support/database-client.ts';
import { rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { jsonLines, keysCommand } from '../../support/keys-command.ts';
import { STORE_MODES, startStore, storeOn, type TestStore } from '../../support/store-mode.ts';
import { bearer, createTestApp, type TestApp } from '../../support/test-app.ts';

const DAY_MS = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
const dayText = (day: number) => new Date(day * DAY_MS).toISOString().slice(0, 10);
const MONTH = dayText(TODAY).slice(0, 7);

async function start(store: TestStore) {
  const env = store.env();
  const app = await createTestApp({ store: storeOn(env), clock: testClock(Date.now()) });
  const { DATABASE_URL: url = '' } = env;
  const keys = (...args: string[]) => keysCommand(env, args);
  const useOn = (id: string, day: number, uses: number) => addUses(url, id, day, uses);
  const change = async (sql: string) => {
    await executeAt(url, sql);
  };
  const usage = async (...args: string[]) => jsonLines(await keys('usage', '--json', ...args));
  return { app, env, keys, useOn, change, usage };
}

const deleteKey = async (app: TestApp, owner: string, keyId: string) =>
  app.call('delete_api_key', { keyId }, await bearer(app, owner));

test.each(rows(STORE_MODES, 1))(
  'units by owner and by key, the most first, with their sum for people (%s)',
  async (mode) => {
    await using store = await startStore(mode);
    const { app, keys, useOn, usage } = await start(store);
    const [web, batch] = [await app.createKey('acme', { name: 'web' }), await app.createKey('acme', { name: 'batch' })];
    const other = await app.createKey('b', { name: 'other' });
    await app.createKey('nobody');
    for (const key of [web.key, web.key, other.key]) expect((await app.useKey(key)).status).toBe(200);
    await app.close(); // which tells the database
    await useOn(batch.id, TODAY, 5);
    await useOn(batch.id, TODAY - 40, 100);
    const today = { from: dayText(TODAY), to: dayText(TODAY), complete: true };
    expect(await usage('--days', '1')).toEqual([
      { owner: 'acme', units: 7, ...today },
      { owner: 'b', units: 1, ...today },
    ]);
    expect(await usage('--days', '1', '--by', 'key')).toEqual([
      { owner: 'acme', keyId: batch.id, keyName: 'batch', units: 5, ...today },
      { owner: 'acme', keyId: web.id, keyName: 'web', units: 2, ...today },
      { owner: 'b', keyId: other.id, keyName: 'other', units: 1, ...today },
    ]);
    expect(await usage('--days', '41', '--owner', 'acme')).toMatchObject([{ units: 107, from: dayText(TODAY - 40) }]);
    expect(await usage('--days', '41', '--owner', 'nobody')).toEqual([]);
    const [month] = await usage();
    expect(month).toEqual({ owner: 'acme', units: 7, from: `${MONTH}-01`, to: dayText(TODAY), complete: true });
    const before = dayText(TODAY - 40).slice(0, 7);
    expect((await usage('--month', before))[0]).toMatchObject({ units: 100, from: `${before}-01` });
    const shown = await keys('usage', '--days', '1');
    expect(shown.stdout).toMatch(/^UNITS +OWNER\n7 +acme\n1 +b\n8 +in all, /);
    expect(shown).toMatchObject({ code: 0, stderr: expect.stringContaining('the last seconds may be missing') });
  },
);

test.each(rows(['embedded', 'remote'] as const, 1))(
  'a deletion takes nothing off a bill, and no quota counts it (%s)',
  async (mode) => {
    await using store = await startStore(mode);
    const { app, keys, useOn, usage } = await start(store);
    const [gone, kept] = [await app.createKey('acme'), await app.createKey('acme')];
    const again = await app.createKey('acme');
    await useOn(gone.id, TODAY, 5);
    await useOn(gone.id, TODAY - 1, 7);
    await useOn(again.id, TODAY, 2);
    await useOn(kept.id, TODAY, 1);
    await deleteKey(app, 'acme', gone.id);
    await deleteKey(app, 'acme', again.id);
    expect(await usage('--days', '2')).toMatchObject([{ owner: 'acme', units: 15 }]);
    const [deleted, left] = await usage('--days', '1', '--by', 'key');
    expect(deleted).toEqual({ owner: 'acme', units: 7, from: dayText(TODAY), to: dayText(TODAY), complete: true });
    expect(left).toMatchObject({ keyId: kept.id, units: 1 });
    expect((await keys('usage', '--days', '1', '--by', 'key')).stdout).toContain('keys that were deleted');
    const { body } = await app.call('list_api_keys', {}, await bearer(app, 'acme'));
    expect(body.keys).toHaveLength(1);
    // An owner who leaves takes them along; his keys' deletions write none.
    await useOn(kept.id, TODAY - 1, 9);
    expect((await keys('owner', 'acme', '--delete', '--yes')).code).toBe(0);
    expect(await usage('--days', '2')).toEqual([]);
    await app.close();
  },
);

test('days that are kept no longer are named, and their lines say so', async () => {
  await using store = await startStore('embedded');
  const { app, keys, useOn, change, usage } = await start(store);
  const { id } = await app.createKey('acme');
  await app.close();
  await useOn(id, TODAY - 90, 3);
  await useOn(id, TODAY, 1);
  expect((await keys('usage', '--days', '400')).code).toBe(0); // the database is of today
  await change(`UPDATE schema_migrations SET applied_at_ms = ${(TODAY - 120) * DAY_MS} WHERE version = 1`);
  const said = `missing, because uses are kept for USAGE_DAYS: ${dayText(TODAY - 120)} to ${dayText(TODAY - 91)}`;
  expect(await keys('usage', '--days', '400')).toMatchObject({ code: 1, stderr: expect.stringContaining(said) });
  expect(await usage('--days', '400')).toMatchObject([{ units: 4, complete: false }]);
  expect((await keys('usage', '--days', '91')).code).toBe(0); // from the oldest on
  expect(await usage('--days', '91')).toMatchObject([{ complete: true }]);
  expect((await keys('usage', '--days', '63')).code).toBe(0);
  await change(`INSERT INTO ended_uses (owner, day, units) VALUES ('acme', ${TODAY - 95}, 2)`); // of a deleted key
  expect(await usage('--days', '96')).toMatchObject([{ units: 6, complete: true }]);
});

test.each([
  '--month 2026-13',
  '--month 2999-01',
  '--month november',
  '--days 0',
  '--days 401',
  `--days 1 --month ${MONTH}`,
  '--by day',
])('%s is wrong usage', async (args) => {
  await using store = await startStore('embedded');
  expect(await keysCommand(store.env(), ['usage', ...args.split(' ')])).toMatchObject({ code: 2, stdout: '' });
});

test.each([
  ['0000-02', '0000-02-29'],
  ['0050-02', '0050-02-28'],
  ['1900-02', '1900-02-28'],
  ['2024-02', '2024-02-29'],
  ['2025-12', '2025-12-31'],
])('%s ends with %s', async (month, last) => {
  await using store = await startStore('embedded');
  const { stdout } = await keysCommand(store.env(), ['usage', '--month', month]);
  expect(stdout).toContain(`in all, ${month}-01 to ${last}`);
});

test('a restore brings what its backup has; an import brings none', async () => {
  await using store = await startStore('embedded');
  const { app, env, keys, useOn, usage } = await start(store);
  const { id } = await app.createKey('acme');
  await useOn(id, TODAY, 5);
  await deleteKey(app, 'acme', id);
  const { stdout } = await keys('export');
  const file = join(temporaryFolder(), 'backup.db');
  await keys('backup', file);
  const later = await app.createKey('acme');
  await useOn(later.id, TODAY, 3);
  await deleteKey(app, 'acme', later.id);
  expect(await usage('--days', '1')).toMatchObject([{ units: 8 }]);
  await app.close();
  expect((await keysCommand(env, ['import', '-'], stdout)).code).toBe(0);
  expect(await usage('--days', '1')).toMatchObject([{ units: 8 }]);
  expect((await keys('restore', file, '--yes')).code).toBe(0);
  expect(await usage('--days', '1')).toMatchObject([{ units: 5 }]);
});

const OLD = `UPDATE api_keys SET created_at_ms = ${Date.now() - 100 * DAY_MS};`;
const OLD_EVENTS = `UPDATE key_events SET at_ms = ${Date.now() - 100 * DAY_MS}`;
const EXCHANGED = "INSERT INTO exchanges (instance, number) VALUES ('test', 1) ON CONFLICT DO NOTHING";

describe('revoke --unused-for', () => {
  async function withKeys(store: TestStore, count: number) {
    const started = await start(store);
    const made = [];
    for (let at = 0; at < count; at += 1) made.push((await started.app.createKey(at % 2 ? 'odd' : 'even')).id);
    await started.app.close();
    for (const sql of [OLD, OLD_EVENTS]) await started.change(sql);
    const revoke = (...args: string[]) => started.keys('revoke', '--unused-for', '90d', ...args);
    return { ...started, made, revoke };
  }

  test.each(rows(['embedded', 'remote'] as const, 1))(
    'revokes those of which nothing is younger (%s)',
    async (mode) => {
      await using store = await startStore(mode);
      const { made, change, useOn, keys, revoke } = await withKeys(store, 6);
      const [used, , changed, young, blocked, unused] = made as [string, string, string, string, string, string];
      await change(EXCHANGED);
      await useOn(used, TODAY - 80, 1);
      await useOn(unused, TODAY - 95, 1);
      await keys('update', changed, '--name', 'other');
      await change(`UPDATE api_keys SET created_at_ms = ${Date.now() - 80 * DAY_MS} WHERE id = '${young}'`);
      await change(`UPDATE api_keys SET user_id = 'mallory' WHERE id = '${blocked}'`);
      await keys('block', 'mallory');
      await change(OLD_EVENTS.concat(` WHERE key_id = '${blocked}'`));
      const listed = jsonLines(await keys('list', '--unused-for', '90d', '--json')).map(({ id }) => id);
      expect(listed.sort()).toEqual([made[1], unused].sort() as string[]);
      expect(await revoke()).toMatchObject({ code: 2, stderr: expect.stringContaining('Revoke 2 active keys?') });
      const done = await revoke('--yes');
      expect(done.stdout.trim().split('\n').sort()).toEqual([made[1], unused].sort() as string[]);
      expect(jsonLines(await keys('events', '--key', unused, '--json')).at(-1)).toMatchObject({
        kind: 'revoked',
        how: 'command',
      });
      expect(await revoke('--yes')).toMatchObject({ code: 0, stderr: 'there are no such active keys\n' });
    },
  );

  test('a script revokes at most so many, or none', async () => {
    await using store = await startStore('embedded');
    const { made, change, keys, revoke } = await withKeys(store, 4);
    await change(EXCHANGED);
    expect(await revoke('--yes', '--at-most', '3')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'keys: 4 active keys fit, more than --at-most 3; none was revoked\n',
    });
    expect(await revoke('--yes', '--at-most', '2', '--user', 'odd')).toMatchObject({ code: 0 });
    expect(await revoke('--yes', '--at-most', '2')).toMatchObject({ code: 0 });
    expect(jsonLines(await keys('list', '--json')).filter(({ active }) => active)).toEqual([]);
    for (const wrong of [
      ['--at-most', '0'],
      ['--at-most', '1000001'],
    ])
      expect((await revoke(...wrong)).code).toBe(2);
    expect((await keys('revoke', made[0] ?? '', '--at-most', '5', '--yes')).code).toBe(2);
  });

  test('none where no server has told of uses for a day, or after a restore', async () => {
    await using store = await startStore('embedded');
    const { change, keys, revoke } = await withKeys(store, 1);
    await change('DELETE FROM exchanges');
    for (const args of [[], ['--yes']])
      expect(await revoke(...args)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('no exchange of uses for a day'),
      });
    await change(EXCHANGED);
    const restored = (daysAgo: number) =>
      change(
        `INSERT INTO key_events (owner, kind, how, at_ms) VALUES ('', 'restored', 'command', ${Date.now() - daysAgo * DAY_MS})`,
      );
    await restored(89);
    for (const args of [[], ['--yes']])
      expect(await revoke(...args)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('was restored within this time'),
      });
    expect(jsonLines(await keys('list', '--json'))).toMatchObject([{ active: true }]);
    await change("DELETE FROM key_events WHERE kind = 'restored'");
    await restored(91);
    expect(await revoke('--yes')).toMatchObject({ code: 0 });
  });
});
