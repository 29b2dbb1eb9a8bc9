// A key that is verified without being used: pasted into a page, or looked at, as by a client that redeems a code for it.
// That neither completes a rotation is in ../signin/handing-out.test.ts and ../mcp/lists.test.ts.

import { expect, test } from 'bun:test';
import { codeFor, register } from '../../support/hand-over.ts';
import { postModern } from '../../support/mcp.ts';
import { createTestApp, listedKeys } from '../../support/test-app.ts';

test('a pasted key is noted as validated, a key that is looked at is not', async () => {
  await using app = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback' } });
  const client = await register(app);
  const { key } = await app.createKey('alice');
  const lastUsedAt = async () => (await listedKeys(app, 'alice'))[0].lastUsedAt;
  const list = await postModern(app, 'tools/list', {}, { headers: { 'x-api-key': key } }); // shows what it may call
  expect([list.status, await lastUsedAt()]).toEqual([200, undefined]);
  const code = await codeFor(client, key);
  const pastedAtMs = app.clock.nowMs();
  expect(await lastUsedAt()).toBe(pastedAtMs);
  app.clock.advance(1000);
  expect((await client.redeem(code)).status).toBe(200); // which looks at it
  expect(await lastUsedAt()).toBe(pastedAtMs);
});
