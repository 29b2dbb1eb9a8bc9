// A person has decided on a key, and before its program fetches it the owner is deleted: nothing is made.

import { expect, test } from 'bun:test';
import { watchedCodes } from '../../store/stored.ts';
import { codeByClick, codeFor, register } from '../../support/hand-over.ts';
import { askAsPerson, askForKey, pollForKey } from '../../support/key-request.ts';
import { refusal } from '../../support/refusal.ts';
import { startStore } from '../../support/store-mode.ts';
import { bearer, createTestApp, listedKeys, type TestApp } from '../../support/test-app.ts';

const ENV = { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1' };
const DECIDED = { approve: true, name: 'agent', scopes: ['read'], expiresInDays: 30 };
const INVALID = { status: 400, body: refusal('invalid_grant') };

/** A client whose person has made a key for it; returns what redeems the code. */
async function byClick(app: TestApp, owner: string) {
  const client = await register(app);
  const code = await codeByClick(app, client.page(), await bearer(app, owner));
  return () => client.redeem(code);
}

/** A device whose request a person has approved; returns what polls. */
async function byDevice(app: TestApp, owner: string) {
  const { device_code: deviceCode, user_code: userCode } = (await askForKey(app)).body;
  await askAsPerson(app, 'decision', { ...DECIDED, userCode }, await bearer(app, owner));
  return async () => {
    const { status, body } = await pollForKey(app, deviceCode);
    return { status, body };
  };
}

test.each([
  ['a code', byClick],
  ['a device', byDevice],
])('%s of an owner who is deleted makes no key, whatever else he has; that of another does', async (_, decide) => {
  await using app = await createTestApp({ env: ENV });
  await app.createKey('alice');
  const [ofAlice, again, ofEve, ofBob] = [
    await decide(app, 'alice'),
    await decide(app, 'alice'),
    await decide(app, 'eve'), // she has nothing yet
    await decide(app, 'bob'),
  ];
  await app.keys('owner', 'alice', '--delete', '--yes');
  await app.keys('owner', 'eve', '--delete', '--yes');
  for (const redeem of [ofAlice, again, ofEve]) expect(await redeem()).toEqual(INVALID);
  expect([await listedKeys(app, 'alice'), await listedKeys(app, 'eve')]).toEqual([[], []]);
  expect((await ofBob()).status).toBe(200);
  // Who comes back decides anew.
  const later = await decide(app, 'alice');
  expect((await later()).status).toBe(200);
});

test('codes go before the keys: a device that polls while many are deleted would make one behind them', async () => {
  const store = await startStore('embedded');
  await using app = await createTestApp({ store, env: ENV });
  await app.createKey('alice');
  await byDevice(app, 'alice');
  const codesAtDeletions = await watchedCodes(store.env().DATABASE_URL ?? '');
  await app.keys('owner', 'alice', '--delete', '--yes');
  expect(await codesAtDeletions()).toEqual([0]);
});

test('a code for a pasted key ends with it', async () => {
  await using app = await createTestApp({ env: ENV });
  const { key } = await app.createKey('alice');
  const client = await register(app);
  const code = await codeFor(client, key);
  await app.keys('owner', 'alice', '--delete', '--yes');
  expect(await client.redeem(code)).toEqual(INVALID);
});

test('codes of a team go with the team, whoever decided', async () => {
  await using app = await createTestApp({ env: { ...ENV, JWT_OWNER_CLAIM: 'org' } });
  const client = await register(app);
  const code = await codeByClick(app, client.page(), await bearer(app, 'carol', { org: 'acme' }));
  await app.keys('owner', 'carol', '--delete', '--yes');
  await app.keys('owner', 'acme', '--delete', '--yes');
  expect(await client.redeem(code)).toEqual(INVALID);
});
