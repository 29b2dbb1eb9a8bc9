// What an operator writes, when a statement arrives once more, late.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { createOriginOf } from '../../src/keys/actor.ts';
import { createAdminStore } from '../../src/store/admin-store.ts';
import type { Statement } from '../../src/store/database.ts';
import { openEmbedded, record } from '../support/embedded.ts';
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
  expect(await admin.unblock('alice', origin)).toBe(true);
  expect(await admin.unblock('alice', origin)).toBe(false);
  const unblocked = sent.at(-1) as Statement;
  await admin.block('alice', origin);
  await db.write({ sql: 'UPDATE blocked_owners SET blocked_at_ms = blocked_at_ms + 1' }); // a millisecond may not have passed
  await db.write(unblocked);
  expect(await admin.blockedOwners()).toMatchObject([{ owner: 'alice' }]);
  await close();
});

test('of two imports of the same keys at once, each counts only what it has added', async () => {
  const { db, close } = await openEmbedded(join(temporaryFolder(), 'keys.db'));
  const recordsOf = (import_: string, from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) =>
      record({ id: `${import_}${from + index}`.padStart(32, '0'), keyHash: `${from + index}`.padStart(64, '0') }),
    );
  const other = createAdminStore(db);
  const admin = createAdminStore({
    ...db,
    async writeAll(statements) {
      expect(await other.importBatch(recordsOf('b', 0, 4), 1000, origin)).toMatchObject({ added: 4 });
      return db.writeAll(statements);
    },
  });
  const mine = recordsOf('a', 0, 6);
  const again = record({ ...mine[0], id: 'c'.repeat(32) });
  expect(await admin.importBatch([...mine, again], 1000, origin)).toEqual({ added: 2, known: 5 });
  expect(await other.importBatch(mine, 1000, origin)).toEqual({ added: 0, known: 6 });
  await close();
});
