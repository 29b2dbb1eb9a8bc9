// The time of a refusal may tell only the work behind it. Every well-formed key costs the same reads, in the same
// order, whether it never was, nearly is, is revoked or has expired. Times are measured by timing.ts.

import { expect, test } from 'bun:test';
import { childOf } from '../support/children.ts';
import { bearer, COUNTED, createTestApp, type TestApp } from '../support/test-app.ts';

const flipped = (key: string, at: number) => key.slice(0, at) + (key[at] === '0' ? '1' : '0') + key.slice(at + 1);

/** Keys that are refused, by how near they are to one that is accepted. */
async function refusedKeys(app: TestApp): Promise<Record<string, string>> {
  const { key } = await app.createKey('alice');
  const revoked = await app.createKey('alice');
  await app.call('revoke_api_key', { keyId: revoked.id }, await bearer(app, 'alice'));
  const deleted = await app.createKey('alice');
  await app.call('delete_api_key', { keyId: deleted.id }, await bearer(app, 'alice'));
  const expired = await app.createKey('alice', { expiresInDays: 1e-6 });
  app.clock.advance(1000);
  return {
    'nothing like it': `sk_test_${'0'.repeat(64)}`,
    'wrong in the first place': flipped(key, 8),
    'wrong in the last place': flipped(key, key.length - 1),
    'of the other environment': key.replace('sk_test', 'sk_live'),
    revoked: revoked.key,
    deleted: deleted.key,
    expired: expired.key,
  };
}

test('each kind of wrong key costs one read when first seen, none when seen again, one a second later', async () => {
  await using app = await createTestApp({ env: COUNTED });
  for (const [kind, key] of Object.entries(await refusedKeys(app))) {
    const costs: number[] = [];
    for (const laterMs of [0, 0, 999, 1]) {
      app.clock.advance(laterMs);
      const before = await app.storeReads();
      expect((await app.useKey(key)).body.code).toBe('invalid_api_key');
      costs.push((await app.storeReads()) - before);
    }
    expect({ kind, costs }).toEqual({ kind, costs: [1, 0, 0, 1] });
  }
});

test('children of a key that has ended cost one read each, also when they come in turn', async () => {
  await using app = await createTestApp({ env: COUNTED });
  const parent = await app.createKey('alice', { scopes: ['read', 'delegate'] });
  const children = [await childOf(app, parent.key), await childOf(app, parent.key)];
  await app.call('revoke_api_key', { keyId: parent.id }, await bearer(app, 'alice'));
  const before = await app.storeReads();
  for (const { key } of [...children, ...children]) expect((await app.useKey(key)).body.code).toBe('invalid_api_key');
  expect((await app.storeReads()) - before).toBe(2);
});
