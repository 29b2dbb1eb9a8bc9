// Prints how a database of a file grows: `bun tests/lab/growth.ts 1000 100000 1000000` (with `--uses`, each key has a month of
// daily uses). Each database is filled by SQL, in a temporary folder; figures are medians of this process alone.

import { randomBytes } from 'node:crypto';
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../support/database-client.ts';
import { fillKeys, fillUses } from '../support/fill.ts';
import { diskFolder } from '../support/folder.ts';
import { keysCommand } from '../support/keys-command.ts';
import { AS_OF, openEmbedded } from '../support/stores.ts';
import { median, msOf } from './bench/measure.ts';

const SAMPLES = 2000;

/** Fills the database at a path with so many keys, of a third as many owners. */
export async function fill(path: string, keys: number, hasUses: boolean): Promise<void> {
  await (await openEmbedded(path)).close();
  using db = openDatabase(`file:${path}`);
  await db.execute('PRAGMA synchronous = OFF');
  await fillKeys(db, keys);
  if (hasUses) await fillUses(db, 30);
  await db.execute('PRAGMA wal_checkpoint(TRUNCATE)');
}

/** Returns the median of what a run takes, in microseconds. */
async function medianUs(times: number, run: (nth: number) => Promise<unknown>): Promise<number> {
  const taken: number[] = [];
  for (let nth = 0; nth < times; nth += 1) {
    taken.push(1000 * (await msOf(() => run(nth))));
  }
  return median(taken);
}

async function measure(keys: number, hasUses: boolean): Promise<Record<string, number>> {
  const folder = diskFolder();
  const path = join(folder, 'keys.db');
  await fill(path, keys, hasUses);
  const { db, store, close } = await openEmbedded(path);
  const rows = await db.read({
    sql: 'SELECT key_hash, user_id FROM api_keys ORDER BY random() LIMIT ?',
    args: [SAMPLES],
  });
  const at = (nth: number) => rows[nth % rows.length] ?? {};
  const asked = { reader: null, withinMs: 5000, asOf: AS_OF };
  const unseen = await medianUs(SAMPLES, (nth) => store.findByHashes([String(at(nth).key_hash)], asked));
  const wrong = await medianUs(SAMPLES, () => store.findByHashes([randomBytes(32).toString('hex')], asked));
  const list = await medianUs(200, (nth) =>
    store.listByUser(String(at(nth).user_id), null, { bytesMax: 100_000, keysMax: 200 }),
  );
  const poll = await medianUs(200, () => store.changesAfter(0, 5000));
  await close();
  const backupMs = await msOf(() =>
    keysCommand({ DATABASE_URL: `file:${path}` }, ['backup', join(folder, 'backup.db')]),
  );
  const megabytes = statSync(path).size / 1e6;
  rmSync(folder, { recursive: true });
  return {
    keys,
    'file, MB': Math.round(megabytes),
    'unseen key, µs': Math.round(unseen),
    'unknown key, µs': Math.round(wrong),
    'list, µs': Math.round(list),
    'poll, µs': Math.round(poll),
    'backup, s': Number((backupMs / 1000).toFixed(1)),
  };
}

if (import.meta.main) {
  const words = process.argv.slice(2);
  const sizes = words.filter((word) => /^\d+$/.test(word)).map(Number);
  const table: Record<string, number>[] = [];
  for (const keys of sizes.length > 0 ? sizes : [1e3, 1e5, 1e6])
    table.push(await measure(keys, words.includes('--uses')));
  console.table(table);
  process.exit(0);
}
