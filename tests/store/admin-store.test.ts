// What an operator writes, when a statement arrives once more, late.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { createOriginOf } from '../../src/keys/origin.ts';
import { createAdminStore } from '../../src/store/admin-store.ts';
import type { Statement } from '../../src/store/database.ts';
import { openEmbedded } from '../../src/store/embedded/open.ts';
import { temporaryFolder } from '../support/folder.ts';
import { CALLER } from '../support/test-app.ts';

const origin = createOriginOf(false)('command', CALLER);

test('the end of a block that arrives once more, late, leaves a newer block alone', async () => {
  const { db, close } = await openEmbedded(join(temporaryFolder(), 'keys.db'));
  const sent: Statement[] = [];
  const write = (statement: Statement) => {
    sent.push(statement);
    return db.write(statement);
  };
  const admin = createAdminStore({ ...db, write });
  await admin.block('alice', origin);
  expect(await admin.unblock('alice', origin)).toEqual({ ok: true, value: true });
  expect(await admin.unblock('alice', origin)).toEqual({ ok: true, value: false });
  const unblocked = sent.at(-1) as Statement;
  await admin.block('alice', origin);
  await db.write({ sql: 'UPDATE blocked_owners SET blocked_at_ms = blocked_at_ms + 1' }); // a millisecond may not have passed
  await db.write(unblocked);
  expect(await admin.blockedOwners()).toMatchObject({ value: [{ owner: 'alice' }] });
  await close();
});
