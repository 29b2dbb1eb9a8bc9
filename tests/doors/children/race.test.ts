// A child's read and its parent's end, in either order, and a second caller who could join that read. A gate holds the
// read's response; the clock of the app under test is moved by hand.

import { describe, expect, test } from 'bun:test';
import { childOf, exchange } from '../../support/children.ts';
import { startSlowStore } from '../../support/slow-store.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';

/** With this bound no poll comes by itself while a test runs. */
const LAG_MAX_MS = 60_000;
const HERE = { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) };
const PARENT = { scopes: ['read', 'delegate'] };

/** Two servers on a primary; the responses to the one that is `here` can be held. */
async function startTwo() {
  const slow = await startSlowStore();
  const elsewhere = await createTestApp({ store: slow.store });
  const here = await createTestApp({ store: slow.store, env: HERE });
  const parent = await elsewhere.createKey('alice', PARENT);
  const child = await childOf(elsewhere, parent.key);
  const other = await here.createKey('alice', { scopes: ['read'] });
  const alice = await bearer(elsewhere, 'alice');
  return {
    slow,
    here,
    elsewhere,
    parent,
    child,
    endParent: () => elsewhere.call('revoke_api_key', { keyId: parent.id }, alice),
    restoreParent: () => slow.restore('alice'),
    /** An own change, after which this server knows those of others, too. */
    changeHere: () => here.call('revoke_api_key', { keyId: other.id }, alice),
    /** Resolves when a request that was sent before has come. */
    arrived: async () => void (await (await fetch(here.url)).text()),
    status: async (key: string) => (await here.useKey(key)).status,
    async [Symbol.asyncDispose]() {
      for (const part of [here, elsewhere, slow]) await part[Symbol.asyncDispose]();
    },
  };
}

test('a parent that has ended elsewhere makes no child, though it still counts here', async () => {
  await using two = await startTwo();
  const { slow, here, parent, endParent, status } = two;
  expect(await status(parent.key)).toBe(200);
  await endParent();
  expect(await status(parent.key)).toBe(200); // within the bound
  const tried = slow.sent('INSERT INTO children');
  expect(await exchange(here, parent.key)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } });
  expect((await here.log()).at(-1)?.reason).toBe('the key ended meanwhile, or lost the scope delegate');
  expect(slow.sent('INSERT INTO children')).toBe(tried + 1); // no second try could end otherwise
});

test('where one of the most children ends while another is refused its place, that is made, and no key is said to have ended', async () => {
  await using two = await startTwo();
  const { slow, here, elsewhere, parent, child } = two;
  for (let made = 1; made < 100; made += 1) await childOf(made % 2 === 0 ? here : elsewhere, parent.key);
  const gate = slow.delayResponseTo('INSERT INTO children');
  const refused = exchange(here, parent.key);
  await gate.made;
  await elsewhere.call('revoke_api_key', { keyId: child.id }, await bearer(elsewhere, 'alice'));
  gate.release();
  expect(await refused).toMatchObject({ status: 200 });
  expect(await exchange(here, parent.key)).toMatchObject({ status: 429 });
});

describe.each(['with', 'without'])('a server %s the parent in memory', (having) => {
  const begin = async ({ parent, status }: Awaited<ReturnType<typeof startTwo>>) =>
    void (having === 'with' && expect(await status(parent.key)).toBe(200));

  test('a read that began before the end is shared by nobody who comes after it is known', async () => {
    await using two = await startTwo();
    const { slow, here, child, endParent, changeHere, arrived, status } = two;
    await begin(two);
    const gate = slow.delayReadOf(child.key);
    const first = status(child.key);
    await gate.made; // it found both good
    await endParent();
    await changeHere();
    const second = status(child.key);
    await arrived();
    gate.release();
    expect(await second).toBe(401);
    expect([200, 401]).toContain(await first); // it began within the bound of the end
    expect(await status(child.key)).toBe(401); // what it read is not kept
    here.clock.sleep(LAG_MAX_MS);
    expect(await status(child.key)).toBe(401);
  });

  test('one that is under way beyond the bound is worth nothing to those who wait for it', async () => {
    await using two = await startTwo();
    const { slow, here, child, endParent, arrived, status } = two;
    await begin(two);
    const gate = slow.delayReadOf(child.key);
    const first = status(child.key);
    await gate.made;
    const joined = status(child.key);
    await arrived();
    await endParent();
    here.clock.sleep(LAG_MAX_MS);
    const later = status(child.key); // polls first
    await arrived();
    gate.release();
    expect([await first, await joined, await later]).toEqual([401, 401, 401]);
  });

  test('a read after the end finds it, whatever memory says of the parent', async () => {
    await using two = await startTwo();
    const { slow, parent, child, endParent, status } = two;
    await begin(two);
    await endParent();
    const gate = slow.delayReadOf(child.key);
    const both = [status(child.key), status(child.key)];
    await gate.made;
    gate.release();
    expect(await Promise.all(both)).toEqual([401, 401]);
    expect(await status(parent.key)).toBe(401); // it learned of it by the child
  });

  test('a child that was read before the end is refused once that is known', async () => {
    await using two = await startTwo();
    const { child, endParent, changeHere, restoreParent, status } = two;
    await begin(two);
    expect(await status(child.key)).toBe(200);
    await endParent();
    expect(await status(child.key)).toBe(200); // within the bound
    await changeHere();
    expect([await status(child.key), await status(child.key)]).toEqual([401, 401]);
    await restoreParent();
    two.here.clock.sleep(LAG_MAX_MS);
    expect(await status(child.key)).toBe(200); // who restores a parent restores its children
  });
});
