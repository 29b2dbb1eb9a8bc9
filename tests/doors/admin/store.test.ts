// What an operator writes, when a statement arrives once more, late.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { createImport } from '../../../src/doors/admin/imports.ts';
import { revokeAll } from '../../../src/doors/admin/keys.ts';
import { createAdminStore } from '../../../src/doors/admin/store.ts';
import { createOriginOf } from '../../../src/keys/actor.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { openEmbedded, record } from '../../support/stores.ts';
import { CALLER } from '../../support/test-app.ts';

const origin = createOriginOf(false)('command', CALLER);

test('of two imports of the same keys at once, each counts only what it has added', async () => {
  const { db, close } = await openEmbedded(join(temporaryFolder(), 'keys.db'));
  const recordsOf = (import_: string, from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) =>
      record({ id: `${import_}${from + index}`.padStart(32, '0'), keyHash: `${from + index}`.padStart(64, '0') }),
    );
  const other = createImport(db, 1000);
  const one = createImport(
    {
      ...db,
      async writeAll(statements) {
        expect(await other(recordsOf('b', 0, 4), origin)).toEqual(Array(4).fill('added'));
        return db.writeAll(statements);
      },
    },
    1000,
  );
  const mine = recordsOf('a', 0, 6);
  const again = record({ ...mine[0], id: 'c'.repeat(32) });
  const outcomes = [...Array(4).fill('known'), 'added', 'added'];
  expect(await one([...mine, again], origin)).toEqual([...outcomes, 'known']);
  expect(await other(mine, origin)).toEqual(Array(6).fill('known'));
  await close();
});

test('keys that no index finds are looked for a hundred thousand rows at a time', async () => {
  const { db, store, close } = await openEmbedded(join(temporaryFolder(), 'keys.db'));
  const rows = [1, 2, 100_001, 100_002, 250_000];
  const ids = rows.map((row) => `${row}`.padStart(32, '0'));
  await createImport(db, 1000)(
    rows.map((row, at) => record({ id: ids[at] as string, keyHash: `${row}`.padStart(64, '0'), scopes: ['deploy'] })),
    origin,
  );
  for (const [at, row] of [...rows.entries()].toReversed())
    await db.write({ sql: 'UPDATE api_keys SET row = ? WHERE id = ?', args: [row, ids[at] as string] });
  const widths: number[] = [];
  const admin = createAdminStore({
    ...db,
    read({ sql, args = [] }) {
      const [after, to] = args;
      if (sql.includes('k.row > ? AND k.row <= ?')) widths.push(Number(to) - Number(after));
      return db.read({ sql, args });
    },
  });
  const filter = { scope: 'deploy' };
  const told: [number, number][] = [];
  const onRead = (done: number, total: number) => void told.push([done, total]);
  const page = async (before: number, limit: number) =>
    (await admin.page(filter, 0, before, limit, onRead)).map(({ row }) => row);
  expect(await page(Number.MAX_SAFE_INTEGER, 3)).toEqual([250_000, 100_002, 100_001]);
  expect(await page(100_001, 3)).toEqual([2, 1]);
  expect(told.at(-1)).toEqual([250_000, 250_000]);
  expect(await admin.countActive(filter, 0, onRead)).toBe(5);
  expect(await admin.countActive({ scope: 'other' }, 0)).toBe(0);
  const revoked = await revokeAll({ store: admin, derived: store.derived }, filter, 0, origin, () => {});
  expect([revoked, await admin.countActive(filter, 0)]).toEqual([5, 0]);
  expect(Math.max(...widths)).toBe(100_000);
  await close();
});
