// A read that comes late shows what was right before a change that this process knows by now: it refuses whoever asked
// before, and nobody else. A gate holds the read's response.

import { expect, test } from 'bun:test';
import { startSlowStore } from '../support/slow-store.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

/** With this bound no poll comes by itself while a test runs. */
const HERE = { REVOCATION_LAG_MAX_MS: '60000', TRUST_PROXY: '1' };

test.each(['another read', 'nothing'])(
  'with %s meanwhile, a read from before a key came back refuses nobody but who waits for it',
  async (meanwhile) => {
    await using slow = await startSlowStore();
    await using elsewhere = await createTestApp({ store: slow.store });
    await using here = await createTestApp({ store: slow.store, env: HERE });
    const { id, key } = await elsewhere.createKey('alice');
    const other = await here.createKey('alice');
    const alice = await bearer(elsewhere, 'alice');
    await elsewhere.call('revoke_api_key', { keyId: id }, alice);
    /** Each address has one read at a time. */
    const status = async (address = '192.0.2.1') =>
      (await here.call('get_data', {}, { 'x-api-key': key, 'x-forwarded-for': address })).status;
    const read = slow.delayReadOf(key);
    const early = status();
    await read.made; // it found a revoked key
    await slow.restore('alice');
    await here.call('revoke_api_key', { keyId: other.id }, alice); // after this it knows of both
    if (meanwhile === 'another read') expect(await status('192.0.2.2')).toBe(200);
    read.release();
    expect(await early).toBe(401);
    expect(await status()).toBe(200);
  },
);
