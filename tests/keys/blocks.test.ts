// A blocked owner: whatever he is called, and wherever his key or token is shown.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { createCheckBlock } from '../../src/calls/blocks.ts';
import { BY_COMMAND } from '../../src/commands/keys/database.ts';
import type { Feed, FeedListener } from '../../src/keys/feed.ts';
import type { KeyStore } from '../../src/keys/store.ts';
import { createLog, err, ok, systemClock } from '../../src/start/package/index.ts';
import { openStore } from '../../src/store/open.ts';
import { openDatabase } from '../support/database-client.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';

let app: TestApp;
let operator: Awaited<ReturnType<typeof openStore>>;
beforeAll(async () => {
  app = await createTestApp({ store: 'embedded', env: { RATE_LIMIT_REQUESTS: '0' } });
  const log = createLog({ level: 'error', clock: systemClock, write: async () => {} });
  operator = await openStore(
    { mode: 'embedded', path: join(app.folder, 'keys.db') },
    { clock: app.clock, log, eventDays: 400, usageDays: 31 },
  );
});
afterAll(async () => {
  await operator.close();
  await app.close();
});

/** What the operator does becomes known with the next poll. */
async function change(what: 'block' | 'unblock', owner: string): Promise<void> {
  expect(await operator.admin[what](owner, BY_COMMAND)).toBe(true);
  app.clock.advance(1000);
}

describe.each([
  ['a name like the mark of owners in the feed', 'owner:owner:x'],
  ['quotes', `o'"\`;--`],
  ['a percent sign and an underscore', '%_'],
  ['255 characters', 'x'.repeat(255)],
  ['emoji', '🗝️👩‍💻'],
  ['64 hex digits, like a hash', 'a'.repeat(64)],
])('%s', (_, owner) => {
  test('the blocked owner alone is refused, and is accepted again once unblocked', async () => {
    const [his, other] = [await app.createKey(owner), await app.createKey('bystander')];
    const headers = await bearer(app, owner);
    const statuses = async () => [
      (await app.useKey(his.key)).status,
      (await app.call('list_api_keys', {}, headers)).status,
      (await app.useKey(other.key)).status,
    ];
    expect(await statuses()).toEqual([200, 200, 200]);
    await change('block', owner);
    expect(await statuses()).toEqual([401, 403, 200]);
    await change('unblock', owner);
    expect(await statuses()).toEqual([200, 200, 200]);
  });
});

test('a blocked key is refused by every route; the log alone says why', async () => {
  const { key } = await app.createKey('mallory');
  const { key: caller } = await app.createKey('service', { scopes: ['introspect'] });
  const ask = () =>
    Promise.all([
      fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } }).then(({ status }) => status),
      fetch(`${app.url}/introspect`, {
        method: 'POST',
        headers: { 'x-api-key': caller },
        body: new URLSearchParams({ token: key }),
      }).then((response) => response.json().then(({ active }) => active)),
    ]);
  expect(await ask()).toEqual([200, true]);
  await change('block', 'mallory');
  expect(await ask()).toEqual([401, false]);
  const refused = await app.useKey(key);
  expect(refused.body.detail).toBe('Invalid or expired API key');
  const refusals = (await app.log()).filter(({ event }) => event === 'Invalid or expired API key');
  expect(refusals.at(-1)).toMatchObject({ reason: 'blocked' });
});

test('the first use of a rotated key of a blocked owner is refused, and puts nothing in force', async () => {
  const { id } = await app.createKey('trudy');
  const headers = await bearer(app, 'trudy');
  const { body } = await app.call('rotate_api_key', { keyId: id }, headers);
  await change('block', 'trudy');
  expect((await app.useKey(body.key)).status).toBe(401);
  await change('unblock', 'trudy');
  const listed = (await app.call('list_api_keys', {}, headers)).body.keys[0];
  expect(listed.rotation.state).toBe('until_first_use');
  expect((await app.useKey(body.key)).status).toBe(200);
});

test('a block that is made while a key is read holds: what was read before is not kept', async () => {
  const { key } = await app.createKey('racer');
  const headers = await bearer(app, 'racer');
  for (let round = 0; round < 20; round += 1) {
    await Promise.all([
      app.useKey(key),
      app.call('list_api_keys', {}, headers),
      operator.admin.block('racer', BY_COMMAND),
      app.useKey(key),
    ]);
    app.clock.advance(1000);
    expect([(await app.useKey(key)).status, (await app.call('list_api_keys', {}, headers)).status]).toEqual([401, 403]);
    await change('unblock', 'racer');
  }
});

test('many owners are blocked in one transaction, also by hand', async () => {
  const keys = await Promise.all(Array.from({ length: 20 }, (_, index) => app.createKey(`many ${index}`)));
  const use = () => Promise.all(keys.map(({ key }) => app.useKey(key).then(({ status }) => status)));
  expect(new Set(await use())).toEqual(new Set([200]));
  const client = openDatabase(`file:${join(app.folder, 'keys.db')}`);
  await client.execute(
    "INSERT INTO blocked_owners (owner) SELECT DISTINCT user_id FROM api_keys WHERE user_id LIKE 'many%'",
  );
  client.close();
  app.clock.advance(1000);
  expect(new Set(await use())).toEqual(new Set([401]));
});

test('many calls of a user at once ask the store once whether he is blocked, but none joins what was asked before a change', async () => {
  const asked: ((blocked: boolean) => void)[] = [];
  const store = {
    isBlocked: () => new Promise((resolve) => asked.push(resolve)),
  } as unknown as KeyStore; // all that is needed of it
  let tell: FeedListener['onChanges'] = () => {};
  const feed = {
    current: () => true,
    queryTimeoutMs: 1000,
    subscribe({ onChanges }: FeedListener) {
      tell = onChanges;
    },
  } as unknown as Feed;
  const check = createCheckBlock({ store, feed });
  const before = [check('alice'), check('alice')];
  expect(asked).toHaveLength(1);
  tell([], new Set(['alice']));
  const after = [check('alice'), check('alice')];
  expect(asked).toHaveLength(2);
  asked[0]?.(false);
  expect(await Promise.all(before)).toEqual([ok(undefined), ok(undefined)]);
  const joined = check('alice');
  expect(asked).toHaveLength(2);
  asked[1]?.(true);
  const refused = err({ code: 'user_blocked' } as const);
  expect(await Promise.all([...after, joined])).toEqual([refused, refused, refused]);
});
