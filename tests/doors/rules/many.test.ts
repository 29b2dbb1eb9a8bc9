// As many rules as there may be, of an issuer with a key set as large as it may be.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { openDatabase } from '../../support/database-client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { startWorkload } from './workload.ts';

const RULES = 1000;
/** Together nearly 64 KiB. */
const KEYS = 50;
const KID_CHARS = 1100;

test('a remote database sends them at once, though the key set of each would be too much', async () => {
  await using sqld = await startPrimary();
  await using workload = await startWorkload({ store: storeOn(sqld.env) });
  const { issuer, keyId } = workload;
  const published = issuer.keys.map(({ jwk }) => jwk);
  const others = Array.from({ length: KEYS - 1 }, (_, nth) => ({
    ...published[0],
    kid: String(nth).padStart(KID_CHARS, '0'),
  }));
  const file = join(temporaryFolder(), 'jwks.json');
  await Bun.write(file, JSON.stringify({ keys: [...others, ...published] }));
  await workload.addRule('--jwks', file);
  const primary = openDatabase(sqld.url);
  await primary.execute(`INSERT INTO rules (id, key_id, hash, issuer, subject, audiences, claims, created_at_ms)
WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ${RULES})
SELECT lower(hex(randomblob(16))), '${keyId}', lower(hex(randomblob(32))), '${issuer.url}', 'job:' || i, '[]', '[]', 1 FROM n`);
  primary.close();
  workload.app.clock.advance(2000);
  expect(await workload.use(await workload.token())).toBe(200);
  expect(await workload.use(await workload.token({ sub: `job:${RULES}` }))).toBe(200);
  expect((await workload.app.keys('rule', 'list')).split('\n').filter((line) => line.includes(keyId))).toHaveLength(
    RULES,
  );
});
