// The connection of a write dies at a remote primary, and it is sent again: what changes nothing then was made before, or
// is no change of this kind at all.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { childOf } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { createIssuer } from '../../support/issuer.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { startProxy } from '../../support/proxy.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { ADMINS, adminOf, bearer, createTestApp, eventsIn } from '../../support/test-app.ts';

setDefaultTimeout(180_000);

async function farAway() {
  const started = new AsyncDisposableStack();
  const sqld = started.use(await startPrimary());
  const proxy = started.use(await startProxy(sqld.url));
  const env = { ...sqld.env, DATABASE_URL: proxy.url };
  const app = started.use(await createTestApp({ store: storeOn(env), env: ADMINS }));
  return { app, env, proxy, alice: await bearer(app, 'alice'), [Symbol.asyncDispose]: () => started.disposeAsync() };
}

test.each([
  ['revoke_api_key', 'SET active = 0'],
  ['delete_api_key', 'SET deleting = 1'],
])('%s ends a child whatever response is lost', async (tool, ofKeys) => {
  await using far = await farAway();
  const { app, proxy, alice } = far;
  const { key } = await app.createKey('alice', { scopes: ['read', 'delegate'] });
  for (const lost of [ofKeys, 'UPDATE children']) {
    const child = await childOf(app, key);
    expect((await app.useKey(child.key)).status).toBe(200);
    const before = proxy.sent(lost);
    proxy.loseResponseTo(lost);
    expect((await app.call(tool, { keyId: child.id }, alice)).status).toBe(200);
    expect(proxy.sent(lost) - before).toBe(2);
    expect((await app.useKey(child.key)).status).toBe(401);
  }
});

test('POST /keys/update refuses what it refuses, and changes what it may, whatever response is lost', async () => {
  await using far = await farAway();
  const { app, proxy, alice } = far;
  const { id: keyId } = await app.createKey('alice', { scopes: ['read', 'write'], expiresInDays: 5 });
  const update = async (asked: object) => {
    proxy.loseResponseTo('UPDATE api_keys SET (');
    const response = await postJson(`${app.url}/keys/update`, { keyId, ...asked }, alice);
    return [response.status, ((await response.json()) as { code?: string }).code];
  };
  expect(await update({ scopes: ['admin'] })).toEqual([400, 'invalid_input']);
  expect(await update({ expiresInDays: 6 })).toEqual([400, 'invalid_input']);
  expect(await update({ name: 'another', scopes: ['read'], expiresInDays: 4 })).toEqual([200, undefined]);
  await app.call('revoke_api_key', { keyId }, alice);
  expect(await update({ name: 'a third' })).toEqual([409, 'key_not_active']);
  const updates = (await app.log()).filter(({ event }) => event === 'API key updated');
  expect(updates.map(({ changed }) => changed)).toEqual([undefined]);
});

test('an edit of a key takes five requests to a primary: one that reads the key before it, and one after it', async () => {
  await using far = await farAway();
  const { app, proxy, alice } = far;
  const { id: keyId } = await app.createKey('alice');
  const admin = await adminOf(app);
  expect((await app.call('admin_list_keys', {}, admin)).status).toBe(200); // is he blocked?
  const edits = [
    () => postJson(`${app.url}/keys/update`, { keyId, name: 'by its owner' }, alice),
    () => app.call('admin_update_key', { keyId, name: 'by an admin' }, admin),
  ];
  const taken: number[] = [];
  for (const edit of edits) {
    const before = proxy.statements();
    expect((await edit()).status).toBe(200);
    taken.push(proxy.statements() - before);
  }
  expect(taken).toEqual([5, 5]);
});

test('a rule that arrives once more, late, does not come back after it was removed', async () => {
  await using far = await farAway();
  await using issuer = await createIssuer();
  const { app, env, proxy } = far;
  const { id } = await app.createKey('alice');
  const letThrough = proxy.holdUp('INSERT INTO rules');
  const terms = ['--issuer', issuer.url, '--subject', 'job', '--audience', 'here'];
  const { stdout } = await keysCommand(env, ['rule', 'add', id, ...terms]);
  expect((await keysCommand(env, ['rule', 'remove', stdout.trim()])).code).toBe(0);
  await letThrough();
  expect((await keysCommand(env, ['rule', 'list'])).stdout).toBe('');
});

type Far = Awaited<ReturnType<typeof farAway>>;

const setOwner = async ({ app }: Far, input: object) => {
  const { status, body } = await app.call('admin_update_owner', { owner: 'alice', ...input }, await adminOf(app));
  expect(status).toBe(200);
  return body;
};

const ISSUER = ['--issuer', 'https://issuer.example', '--subject', 'job', '--audience', 'here', '--jwks'];

/** How a value is set, the statement that does it, and how it is read. */
const SETTINGS: Record<
  string,
  [text: string, set: (far: Far, id: string, value: string) => unknown, read: typeof nameOf]
> = {
  'a block': ['INTO blocked_owners', (far, _, value) => setOwner(far, { blocked: value === 'one' }), blockOf],
  "an owner's settings": [
    'INTO owners',
    (far, _, value) => setOwner(far, { metadata: { plan: value } }),
    async (far) => (await setOwner(far, {})).metadata.plan,
  ],
  'keys update': ['UPDATE api_keys SET (', ({ app }, id, value) => app.keys('update', id, '--name', value), nameOf],
  "an admin's edit of a key": [
    'UPDATE api_keys SET (',
    async ({ app }, keyId, name) => app.call('admin_update_key', { keyId, name }, await adminOf(app)),
    nameOf,
  ],
  "an owner's edit of a key": [
    'UPDATE api_keys SET (',
    ({ app, alice }, keyId, name) => postJson(`${app.url}/keys/update`, { keyId, name }, alice),
    nameOf,
  ],
  'a key set': [
    'INTO issuers',
    ({ app }, id, value) => app.keys('rule', 'add', id, ...ISSUER, `https://issuer.example/${value}`),
    async ({ app }, id) =>
      JSON.parse(await app.keys('rule', 'list', id, '--json'))
        .keySet.split('/')
        .at(-1),
  ],
};

async function nameOf({ app, alice }: Far, id: string): Promise<string> {
  const { body } = await app.call('list_api_keys', {}, alice);
  return body.keys.find((key: { id: string }) => key.id === id).name;
}

async function blockOf(far: Far): Promise<string> {
  return (await setOwner(far, {})).blocked ? 'one' : 'two';
}

test.each(Object.entries(SETTINGS))(
  '%s that arrives once more, late, leaves a newer one alone',
  async (_, [text, set, read]) => {
    await using far = await farAway();
    const { id } = await far.app.createKey('alice');
    const letThrough = far.proxy.holdUp(text);
    await set(far, id, 'one');
    expect(await read(far, id)).toBe('one');
    await set(far, id, 'two');
    await letThrough();
    expect(await read(far, id)).toBe('two');
  },
);

test.each(Object.entries(SETTINGS))('%s whose response is lost is set nevertheless', async (_, [text, set, read]) => {
  await using far = await farAway();
  const { id } = await far.app.createKey('alice');
  for (const value of ['one', 'two', 'one']) {
    if (value === 'one') far.proxy.loseResponseTo(text);
    await set(far, id, value);
    expect(await read(far, id)).toBe(value);
  }
});

test('the end of a block that arrives once more, late, leaves a newer block alone', async () => {
  await using far = await farAway();
  const block = async (blocked: boolean) => (await setOwner(far, { blocked })).blocked;
  expect(await block(true)).toBe(true);
  const letThrough = far.proxy.holdUp('UPDATE blocked_owners');
  expect(await block(false)).toBe(false);
  expect(await block(true)).toBe(true);
  await letThrough();
  expect((await setOwner(far, {})).blocked).toBe(true);
});

test.each(['UPDATE api_keys SET deleting', 'INSERT INTO owners', 'DELETE FROM key_events'])(
  'a removal that arrives once more, late, leaves an owner alone who has come back (%s)',
  async (held) => {
    await using far = await farAway();
    const { app, proxy } = far;
    await app.createKey('eve');
    const letThrough = proxy.holdUp(held);
    await app.keys('owner', 'eve', '--delete', '--yes');
    await app.createKey('eve');
    await setOwner(far, { owner: 'eve', keysMax: 7 });
    await letThrough();
    expect(await setOwner(far, { owner: 'eve' })).toMatchObject({ keys: 1, keysMax: 7 });
    const kinds = (await eventsIn(app, '--user', 'eve')).map(({ kind }) => kind);
    expect(kinds).toEqual(['owner_deleted', 'created', 'owner_changed']);
  },
);
