// However many strangers ask for keys at a far primary, owners don't wait for them.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { askForKey } from '../../support/key-request.ts';
import { startProxy } from '../../support/proxy.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';

setDefaultTimeout(180_000);

test('strangers who ask for keys take one turn together at a far primary', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url, { delayMs: 30 });
  const env = { OAUTH_DEVICE: '1', TRUST_PROXY: '1' };
  await using app = await createTestApp({ store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }), env });
  const { id } = await app.createKey('alice');
  const alice = await bearer(app, 'alice');
  let asked = 0;
  const asking = Array.from({ length: 60 }, async (_, n) => {
    const { status } = await askForKey(app, {}, { 'x-forwarded-for': `10.${n}.0.1` });
    asked += 1;
    return status;
  });
  while (asked === 0) await Bun.sleep(1);
  const before = asked;
  expect((await app.call('revoke_api_key', { keyId: id }, alice)).status).toBe(200);
  expect(asked - before).toBeLessThan(12); // in the time of its own few statements
  expect(await Promise.all(asking)).toEqual(asking.map(() => 200));
});
