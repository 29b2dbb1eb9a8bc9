// What operators copy for bills and for unused keys: totals of days to a meter, and a weekly end of keys that nobody uses.

import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { addUses } from '../store/stored.ts';
import { testClock } from '../support/clock.ts';
import { noting, run } from '../support/command.ts';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { ROOT, readDocument } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { jsonLines, keysCommand, keysProgram } from '../support/keys-command.ts';
import { createTestApp } from '../support/test-app.ts';

const DAY_MS = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY_MS);
const dayText = (day: number) => new Date(day * DAY_MS).toISOString().slice(0, 10);
const PATH = process.env.PATH ?? '';
const missing = ['bash', 'jq', 'curl'].some((program) => Bun.which(program) === null);

test.skipIf(missing)(
  'a meter that takes the last value has the totals of three days, however often they are sent',
  async () => {
    const taken = new Map<string, object>();
    await using meter = Bun.serve({
      port: 0,
      async fetch(request) {
        if (request.method !== 'PUT' || request.headers.get('authorization') !== 'Bearer secret')
          return new Response(null, { status: 403 });
        const total = (await request.json()) as { id: string; owner: string };
        if (total.owner === 'unknown to the meter') return new Response(null, { status: 422 });
        taken.set(total.id, total);
        return new Response();
      },
    });
    const app = await createTestApp({ store: 'embedded' });
    const [one, two] = [await app.createKey('acme'), await app.createKey('acme/2')];
    await app.close();
    const url = databaseOf(app);
    using client = openDatabase(url);
    for (const [ago, uses] of [
      [0, 1],
      [1, 20],
      [3, 300],
      [4, 4000],
    ] as const)
      await addUses(url, one.id, TODAY - ago, uses);
    await addUses(url, two.id, TODAY - 2, 7);
    const typed = readDocument('src/keys/README.md').codeBlock('What a month cost', 'sh').trim();
    const month = dayText(TODAY).slice(0, 7);
    const words = typed.replace('bun run keys ', '').replace('2026-11', month).split(' ');
    const bill = jsonLines(await keysCommand({ DATABASE_URL: url }, words));
    expect(bill).toContainEqual(expect.objectContaining({ owner: 'acme', from: `${month}-01`, complete: true }));
    const curl = noting('curl');
    const env = {
      PATH: curl.path,
      HOME: temporaryFolder(),
      DATABASE_URL: url,
      KEYS: keysProgram(),
      METER: meter.url.href,
      METER_TOKEN: 'secret',
    };
    const send = (changed: object = {}) =>
      run(['bash', join(import.meta.dir, 'usage-meter.sh')], { cwd: temporaryFolder(), env: { ...env, ...changed } });
    const totals = (owner: string, ...days: (readonly [number, number])[]) =>
      days.map(([ago, units]) => ({ id: `${owner}/${dayText(TODAY - ago)}`, owner, day: dayText(TODAY - ago), units }));
    expect(await send()).toEqual({ code: 0, stdout: '', stderr: '' });
    const sent = [...totals('acme', [1, 20], [3, 300]), ...totals('acme/2', [2, 7])];
    expect([...taken.values()]).toEqual(expect.arrayContaining(sent));
    expect(taken.size).toBe(sent.length);
    // What comes late replaces what was there.
    await addUses(url, one.id, TODAY - 1, 21);
    expect(await send()).toMatchObject({ code: 0 });
    expect([...taken.values()]).toEqual(expect.arrayContaining(totals('acme', [1, 21])));
    expect(taken.size).toBe(sent.length);
    // An owner whom the meter refuses keeps no other from it.
    await client.execute("UPDATE api_keys SET user_id = 'unknown to the meter' WHERE user_id = 'acme'");
    await addUses(url, two.id, TODAY - 2, 8);
    await client.execute("UPDATE api_keys SET user_id = 'zoe' WHERE user_id = 'acme/2'");
    expect(await send()).toMatchObject({ code: 1, stderr: expect.stringContaining('422') });
    expect([...taken.values()]).toEqual(expect.arrayContaining(totals('zoe', [2, 8])));
    // It says why it has nothing to send.
    const none = await send({ DATABASE_URL: `file:${join(temporaryFolder(), 'keys.db')}` });
    expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining('there is no database') });
    expect(curl.noted().filter((line) => line.includes(env.METER_TOKEN))).toEqual([]);
  },
  180_000,
);

test('the unit of every week ends keys that were not used, and fails where there are too many', async () => {
  const unit = readFileSync(join(import.meta.dir, 'mcp-key-server-unused.service'), 'utf8');
  const [, command = ''] = /^ExecStart=\/usr\/local\/bin\/bun (.*)$/m.exec(unit) ?? [];
  const app = await createTestApp({ store: 'embedded', clock: testClock(Date.now()) });
  const [used, unused] = [await app.createKey('a'), await app.createKey('a')];
  await app.useKey(used.key);
  await app.close();
  const url = databaseOf(app);
  const client = openDatabase(url);
  const old = Date.now() - 100 * DAY_MS;
  await client.execute(`UPDATE api_keys SET created_at_ms = ${old}`);
  await client.execute(`UPDATE key_events SET at_ms = ${old}`);
  const weekly = () =>
    run([process.execPath, '--no-env-file', ...command.split(' ')], {
      cwd: ROOT,
      env: { PATH, HOME: temporaryFolder(), DATABASE_URL: url },
    });
  expect(await weekly()).toMatchObject({ code: 0, stdout: `${unused.id}\n` });
  expect((await keysCommand({ DATABASE_URL: url }, ['show', used.id])).stdout).toMatch(/^active +true$/m);
  await client.execute(`INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 101)
SELECT lower(hex(randomblob(16))), 'b', 'n', lower(hex(randomblob(32))), '[]', 1, 1 FROM n`);
  await client.execute(`UPDATE key_events SET at_ms = ${old}`);
  client.close();
  expect(await weekly()).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('more than --at-most 100'),
  });
});
