// What `keys` says and changes of limits, quotas and uses, beside a running server.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { testClock } from '../support/clock.ts';
import { run } from '../support/command.ts';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { fillKeys } from '../support/fill.ts';
import { temporaryFolder } from '../support/folder.ts';
import { jsonLines, keysCommand } from '../support/keys-command.ts';
import { runnerOf } from '../support/server-process.ts';
import { sharedApp } from '../support/test-app.ts';
import { advanceUntil } from '../support/wait-for.ts';

// Uses are of a day, by the clock of the commands too.
const app = await sharedApp({ store: 'embedded', env: { RATE_LIMIT_WINDOW: '366d' }, clock: testClock(Date.now()) });

const env = () => ({ RATE_LIMIT_WINDOW: '366d', DATABASE_URL: databaseOf(app) });
const keys = (...args: string[]) => keysCommand(env(), args);
const policyOf = async (key: string) => {
  app.clock.advance(1001); // the bound
  return (await app.useKey(key)).headers.get('ratelimit-policy');
};

test('update sets limit, quota, name, scopes and days, and takes them away; a server follows', async () => {
  const { id, key } = await app.createKey('alice');
  expect(await policyOf(key)).toBe('"key";q=1000;w=31622400');
  const changed = await keys('update', id, '--limit', '5000/1m', '--quota', '9/day', '--name', 'new', '--days', '3');
  expect(changed).toMatchObject({ code: 0 });
  expect(await policyOf(key)).toBe('"key";q=5000;w=60, "quota";q=9;w=86400');
  const [shown] = jsonLines(await keys('show', id, '--json'));
  expect(shown).toMatchObject({
    name: 'new',
    rateLimit: { requests: 5000, window: '1m' },
    quota: { requests: 9, period: 'day' },
  });
  expect(Date.parse(shown.expiresAt) - Date.now()).toBeGreaterThan(2 * 86_400_000);
  expect((await keys('show', id)).stdout).toMatch(/^rateLimit +5000\/1m\nquota +9\/day$/m);
  const [event] = jsonLines(await keys('events', '--key', id, '--limit', '1', '--json'));
  const fields = ['name', 'expiresAt', 'rateLimit', 'quota'];
  expect(event).toMatchObject({ kind: 'changed', how: 'command', fields });
  expect((await keys('events', '--key', id)).stdout).toContain('changed (name, expiresAt, rateLimit, quota)');

  await keys('update', id, '--limit', 'default', '--quota', 'default', '--days', 'never', '--scope', 'read');
  expect(await policyOf(key)).toBe('"key";q=1000;w=31622400');
  const [again] = jsonLines(await keys('show', id, '--json'));
  expect(again).toMatchObject({ expiresAt: null, scopes: ['read'] });
  expect(again).not.toHaveProperty('rateLimit');
  expect(again).not.toHaveProperty('quota');

  await keys('update', id, '--scope', 'a,b', '--scope', 'c');
  expect((await keys('show', id)).stdout).toMatch(/^scopes +a,b c$/m);
});

test('update without an option is wrong usage, and a revoked key stays revoked', async () => {
  const { id, key } = await app.createKey('bob');
  expect(await keys('update', id)).toMatchObject({ code: 2, stdout: '' });
  expect(await keys('update', id, '--limit', 'many')).toMatchObject({ code: 2, stdout: '' });
  await keys('revoke', id, '--yes');
  expect(await keys('update', id, '--name', 'other')).toMatchObject({ code: 0 });
  expect(jsonLines(await keys('show', id, '--json'))).toMatchObject([{ name: 'other', active: false }]);
  app.clock.advance(1001);
  expect((await app.useKey(key)).status).toBe(401);
});

test('list and show say how often a key was used; --sort uses puts the most used first, and leaves none out', async () => {
  const [little, much] = [await app.createKey('carol'), await app.createKey('carol')];
  const unused = await app.createKey('carol');
  for (const key of [little.key, much.key, much.key, much.key]) expect((await app.useKey(key)).status).toBe(200);
  const sorted = (...more: string[]) => keys('list', '--user', 'carol', '--sort', 'uses', ...more);
  const listed = [
    { id: much.id, uses: { today: 3, last30Days: [3] } },
    { id: little.id, uses: { today: 1, last30Days: [1] } },
    { id: unused.id },
  ];
  await advanceUntil(app.clock, async () => Bun.deepMatch(listed, jsonLines(await sorted('--json'))), 100);
  const lines = (await sorted()).stdout.split('\n');
  expect([lines[0]?.endsWith('USES'), lines[1]?.endsWith(' 3'), lines[3]?.endsWith(' 0')]).toEqual([true, true, true]);
  expect((await keys('show', much.id)).stdout).toMatch(/\n\d{4}-\d\d-\d\d {2}3\n$/);
  expect(await keys('list', '--sort', 'names')).toMatchObject({ code: 2 });
});

test.each(['bun', 'deno'] as const)(
  'on %s an owner of so many keys that a thread reads their uses is shown',
  async (runtime) => {
    using database = openDatabase(databaseOf(app));
    await fillKeys(database, 300, 1000);
    const command = [...runnerOf(runtime), join(import.meta.dir, '../../src/commands/keys.ts')];
    const shown = await run([...command, 'owner', 'owner-0@example.com', '--json'], {
      cwd: temporaryFolder(),
      env: env(),
    });
    expect(shown).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\{"owner":"owner-0@example.com",/) });
  },
);
