// A database whose text is damaged where a page's checks find nothing: calls that need it are 503, and nothing else ends.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { childOf } from '../support/children.ts';
import { postJson } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { dataOf } from '../support/sqld.ts';
import { startStore, storeOn } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

/** Damages the file as a disk could: past what the schema lets in. */
async function damage(file: string): Promise<void> {
  const db = openDatabase(`file:${file}`);
  await db.executeMultiple(`PRAGMA ignore_check_constraints = ON;
UPDATE api_keys SET scopes = '[rea' WHERE user_id = 'alice';
INSERT INTO owners (owner, metadata) VALUES ('bob', '{x');`);
  db.close();
}

async function start(mode: 'embedded' | 'remote') {
  const folder = temporaryFolder();
  if (mode === 'embedded') {
    return { store: await startStore(mode, folder), damaged: () => damage(join(folder, 'keys.db')) };
  }
  const sqld = await startPrimary(folder);
  const damaged = async () => {
    await sqld.end();
    await damage(join(dataOf(folder), 'dbs/default/data'));
    await sqld.start();
  };
  return { store: Object.assign(storeOn(sqld.env), { [Symbol.asyncDispose]: sqld.kill }), damaged };
}

test.each(['embedded', 'remote'] as const)('of the kind %s', async (mode) => {
  const { store, damaged } = await start(mode);
  await using _ = store;
  await using app = await createTestApp({ store });
  const parent = await app.createKey('alice', { scopes: ['read', 'delegate'] });
  await childOf(app, parent.key);
  const [bobs, carols] = [await app.createKey('bob'), await app.createKey('carol')];
  await damaged();
  app.clock.advance(2000);
  const alice = await bearer(app, 'alice');
  expect((await app.call('list_api_keys', { childrenOf: parent.id }, alice)).status).toBe(503);
  const renamed = await postJson(`${app.url}/keys/update`, { keyId: parent.id, scopes: [] }, alice);
  expect(renamed.status).toBe(503);
  expect((await app.useKey(bobs.key)).status).toBe(503);
  expect((await app.useKey(carols.key)).status).toBe(200);
  expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
});
