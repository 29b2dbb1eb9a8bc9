// What `keys` says and changes of limits, quotas and uses, beside a running server.

import { afterAll, beforeAll, expect, test } from 'bun:test';
import { callOver, userHeaders } from '../support/client.ts';
import { keysCommand } from '../support/keys-command.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { startStore, type TestStore } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

let store: TestStore;
let server: ServerProcess;
let env: Record<string, string>;
beforeAll(async () => {
  store = await startStore('embedded');
  env = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_WINDOW: '366d', ...store.env() };
  server = await startServer({ env });
});
afterAll(async () => {
  await server.kill();
  await store[Symbol.asyncDispose]();
});

const keys = (...args: string[]) => keysCommand(env, args);
const jsonOf = ({ stdout }: { readonly stdout: string }) =>
  stdout
    .trim()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
const create = async (owner: string) =>
  (await callOver(server.url, 'create_api_key', { name: 'k', scopes: ['read'] }, await userHeaders(owner))).body;
const use = (key: string) => callOver(server.url, 'get_data', {}, { 'x-api-key': key });
const policyOf = async (key: string) => (await use(key)).headers.get('ratelimit-policy');

test('update sets limit, quota, name, scopes and days, and takes them away; a server follows', async () => {
  const { id, key } = await create('alice');
  expect(await policyOf(key)).toBe('"key";q=1000;w=31622400');
  const changed = await keys('update', id, '--limit', '5000/1m', '--quota', '9/day', '--name', 'new', '--days', '3');
  expect(changed).toMatchObject({ code: 0 });
  await waitFor(async () => (await policyOf(key)) === '"key";q=5000;w=60, "quota";q=9;w=86400');
  const [shown] = jsonOf(await keys('show', id, '--json'));
  expect(shown).toMatchObject({
    name: 'new',
    rateLimit: { requests: 5000, window: '1m' },
    quota: { requests: 9, period: 'day' },
  });
  expect(Date.parse(shown.expiresAt) - Date.now()).toBeGreaterThan(2 * 86_400_000);
  const [event] = jsonOf(await keys('events', '--key', id, '--limit', '1', '--json'));
  const fields = ['name', 'expiresAt', 'rateLimit', 'quota'];
  expect(event).toMatchObject({ kind: 'changed', how: 'command', fields });
  expect((await keys('events', '--key', id)).stdout).toContain('changed (name, expiresAt, rateLimit, quota)');

  await keys('update', id, '--limit', 'default', '--quota', 'default', '--days', 'never', '--scope', 'read');
  await waitFor(async () => (await policyOf(key)) === '"key";q=1000;w=31622400');
  const [again] = jsonOf(await keys('show', id, '--json'));
  expect(again).toMatchObject({ expiresAt: null, scopes: ['read'] });
  expect(again).not.toHaveProperty('rateLimit');
  expect(again).not.toHaveProperty('quota');

  await keys('update', id, '--scope', 'a,b', '--scope', 'c');
  expect((await keys('show', id)).stdout).toMatch(/^scopes +a,b c$/m);
}, 180_000);

test('update without an option is wrong usage, and a revoked key stays revoked', async () => {
  const { id, key } = await create('bob');
  expect(await keys('update', id)).toMatchObject({ code: 2, stdout: '' });
  expect(await keys('update', id, '--limit', 'many')).toMatchObject({ code: 2, stdout: '' });
  await keys('revoke', id, '--yes');
  expect(await keys('update', id, '--name', 'other')).toMatchObject({ code: 0 });
  expect(jsonOf(await keys('show', id, '--json'))).toMatchObject([{ name: 'other', active: false }]);
  await waitFor(async () => (await use(key)).status === 401);
});

test('list and show say how often a key was used; --sort uses puts the most used first, and leaves none out', async () => {
  const [little, much] = [await create('carol'), await create('carol')];
  const unused = await create('carol');
  for (const key of [little.key, much.key, much.key, much.key]) expect((await use(key)).status).toBe(200);
  const sorted = (...more: string[]) => keys('list', '--user', 'carol', '--sort', 'uses', ...more);
  const listed = [
    { id: much.id, uses: { today: 3, last30Days: [3] } },
    { id: little.id, uses: { today: 1, last30Days: [1] } },
    { id: unused.id },
  ];
  await waitFor(async () => Bun.deepMatch(listed, jsonOf(await sorted('--json'))));
  const lines = (await sorted()).stdout.split('\n');
  expect([lines[0]?.endsWith('USES'), lines[1]?.endsWith(' 3'), lines[3]?.endsWith(' 0')]).toEqual([true, true, true]);
  expect((await keys('show', much.id)).stdout).toMatch(/\n\d{4}-\d\d-\d\d {2}3\n$/);
  expect(await keys('list', '--sort', 'names')).toMatchObject({ code: 2 });
}, 180_000);
