// A blocked owner: whatever he is called, and wherever his key or token is shown.

import { expect, test } from 'bun:test';
import { databaseOf, executeAt } from '../../support/database-client.ts';
import { startProxy } from '../../support/proxy.ts';
import { leaseOf, serviceOf } from '../../support/service.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { bearer, createTestApp, sharedApp } from '../../support/test-app.ts';

const app = await sharedApp({ store: 'embedded', env: { RATE_LIMIT_REQUESTS: '0' } });

/** What the operator does becomes known with the next poll. */
async function change(what: 'block' | 'unblock', owner: string): Promise<void> {
  await app.keys(what, owner);
  app.clock.advance(1000);
}

test.each([
  ['a name like the mark of owners in the feed', 'owner:owner:x'],
  ['quotes', `o'"\`;--`],
  ['a percent sign and an underscore', '%_'],
  ['255 characters', 'x'.repeat(255)],
  ['emoji', '🗝️👩‍💻'],
  ['64 hex digits, like a hash', 'a'.repeat(64)],
])('an owner with %s alone is refused while blocked', async (_, owner) => {
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

test('after a block a key is accepted within the bound, also one that is shorter than a refusal is remembered', async () => {
  await using soon = await createTestApp({ env: { REVOCATION_LAG_MAX_MS: '250' } });
  const { key } = await soon.createKey('alice');
  for (const [what, status] of [
    ['block', 401],
    ['unblock', 200],
  ] as const) {
    await soon.keys(what, 'alice');
    soon.clock.advance(250);
    expect((await soon.useKey(key)).status).toBe(status);
  }
});

test('a blocked key is refused by every route; the log alone says why', async () => {
  const { key } = await app.createKey('mallory');
  const service = await serviceOf(app);
  const ask = () =>
    Promise.all([
      fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } }).then(({ status }) => status),
      leaseOf(app, service, key, {}).then(({ body }) => body.active),
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
      app.keys('block', 'racer'),
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
  await executeAt(
    databaseOf(app),
    "INSERT INTO blocked_owners (owner) SELECT DISTINCT user_id FROM api_keys WHERE user_id LIKE 'many%'",
  );
  app.clock.advance(1000);
  expect(new Set(await use())).toEqual(new Set([401]));
});

test('many calls of a user at once ask the store once whether he is blocked, but none joins what was asked before a change', async () => {
  const ASKED = 'FROM blocked_owners WHERE owner = ?';
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  const env = { REVOCATION_LAG_MAX_MS: '4000' }; // a read may take 3 s, on a busy machine too
  await using here = await createTestApp({ store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }), env });
  await using elsewhere = await createTestApp({ store: storeOn(sqld.env) });
  const headers = await bearer(here, 'alice');
  const statusOf = async () => (await here.call('list_api_keys', {}, headers)).status;
  const asked = proxy.delayResponseTo(ASKED);
  const before = [statusOf(), statusOf()];
  await asked.made;
  expect(proxy.sent(ASKED)).toBe(1);
  await elsewhere.keys('block', 'alice');
  here.clock.advance(4000); // the next call polls
  expect([await statusOf(), proxy.sent(ASKED)]).toEqual([403, 2]);
  expect(await Promise.race([...before, Bun.sleep(50).then(() => 'they wait')])).toBe('they wait');
  asked.release();
  expect(await Promise.all(before)).toEqual([403, 403]); // beyond the bound, nothing leaves for him
  expect([await statusOf(), proxy.sent(ASKED)]).toEqual([403, 2]); // nor is what was asked before kept
});
