// Limits and quotas as commands write them, wherever a tool or an import takes the objects that lists show.

import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';
import { call, post } from '../../support/mcp.ts';
import { ADMINS, adminOf, bearer, createTestApp } from '../../support/test-app.ts';

const WRITTEN = { rateLimit: '5/60s', quota: '7/day' };
const READ = { rateLimit: { requests: 5, window: '1m' }, quota: { requests: 7, period: 'day' } };

test('text is taken as the object is, over REST and MCP, by tools for owners and for admins', async () => {
  await using app = await createTestApp({ env: ADMINS });
  const alice = await bearer(app, 'alice');
  const made = await app.call('create_api_key', { name: 'n', scopes: [], ...WRITTEN }, alice);
  expect(made).toMatchObject({ status: 200, body: READ });
  const overMcp = await post(app, call('create_api_key', { name: 'n', scopes: [], ...WRITTEN }), alice);
  expect(overMcp.body.result.structuredContent).toMatchObject(READ);
  const { body } = await app.call('list_api_keys', {}, alice);
  expect(body.keys).toMatchObject([READ, READ]);
  const admin = await adminOf(app);
  const plain = await app.createKey('bob');
  expect(await app.call('admin_update_key', { keyId: plain.id, ...WRITTEN }, admin)).toMatchObject({ body: READ });
  expect(await app.call('admin_update_owner', { owner: 'bob', ...WRITTEN }, admin)).toMatchObject({ body: READ });
  const none = { rateLimit: null, quota: null };
  expect(await app.call('admin_update_owner', { owner: 'bob', ...none }, admin)).toMatchObject({ body: none });
});

test('an import takes both', async () => {
  await using app = await createTestApp();
  const file = join(temporaryFolder(), 'keys.jsonl');
  writeFileSync(file, JSON.stringify({ userId: 'a', name: 'n', scopes: [], keyHash: 'a'.repeat(64), ...WRITTEN }));
  await app.keys('import', file);
  expect(JSON.parse(await app.keys('list', '--json'))).toMatchObject(READ);
});

test.each(['', '5', '5/', '0/1m', '5/0s', '5/1y', '5/400d', '5/day', '-5/1m', '5 / 1m', '5/1m ', '10000000000/1m'])(
  'a limit of %j is invalid, and nothing is made',
  async (rateLimit) => {
    await using app = await createTestApp();
    const alice = await bearer(app, 'alice');
    const issue = { path: 'rateLimit', message: 'Expected requests and a window, or text like 100/1m' };
    expect(await app.call('create_api_key', { name: 'n', scopes: [], rateLimit }, alice)).toMatchObject({
      status: 400,
      body: { code: 'invalid_input', issues: [issue] },
    });
    expect((await app.call('list_api_keys', {}, alice)).body.keys).toEqual([]);
  },
);

test.each(['', '5', '5/', '0/day', '5/week', '5/1d', '5/days', '-5/month', '5/Day'])(
  'nor is a quota of %j',
  async (quota) => {
    await using app = await createTestApp();
    const issue = { path: 'quota', message: 'Expected requests and a period, or text like 5000/day' };
    expect(
      await app.call('create_api_key', { name: 'n', scopes: [], quota }, await bearer(app, 'alice')),
    ).toMatchObject({ status: 400, body: { code: 'invalid_input', issues: [issue] } });
  },
);

test('null is invalid for an owner, and an object is checked as ever', async () => {
  await using app = await createTestApp();
  const alice = await bearer(app, 'alice');
  for (const [given, path] of [
    [{ quota: null }, 'quota'],
    [{ rateLimit: null }, 'rateLimit'],
    [{ rateLimit: 5 }, 'rateLimit'],
    [{ rateLimit: [5, '1m'] }, 'rateLimit'],
    [{ rateLimit: { requests: 0, window: '1m' } }, 'rateLimit.requests'],
    [{ quota: { requests: 5, period: 'day', more: 1 } }, 'quota'],
  ] as const) {
    const refused = await app.call('create_api_key', { name: 'n', scopes: [], ...given }, alice);
    expect([refused.status, refused.body.issues[0].path]).toEqual([400, expect.stringContaining(path)]);
  }
});
