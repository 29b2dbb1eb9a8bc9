// Statements are prepared once for each connection, and no more of them are kept than the program has.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';
import { embeddedDatabase } from '../../support/stores.ts';
import { median } from '../bench/measure.ts';

const READS = 5000;
const ROUNDS = 5;
/** Of the time that statements take which are prepared for each read. It is 0.4; if none were kept it would be 1. */
const PART_MAX = 0.7;
/** They grow by 12 MB; if all were kept, by 140. */
const GROWTH_MB_MAX = 60;

test('a statement that comes again takes less than one that comes once, and those that come once are not kept', async () => {
  const db = embeddedDatabase(join(temporaryFolder(), 'rows.db'));
  await db.write({ sql: 'CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT)' });
  const again = 'SELECT * FROM t a LEFT JOIN t b ON a.id = b.id WHERE a.id = ?';
  let made = 0;
  const once = () => {
    made += 1;
    return `${again} AND ${made} > 0`;
  };

  async function readMs(sql: () => string): Promise<number> {
    const before = process.cpuUsage();
    for (let read = 0; read < READS; read += 1) await db.read({ sql: sql(), args: [read] });
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  }

  await readMs(() => again);
  await readMs(once);
  const residentMb = () => process.memoryUsage.rss() / 1e6;
  const beforeMb = residentMb();
  const parts: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) parts.push((await readMs(() => again)) / (await readMs(once)));
  expect(median(parts)).toBeLessThan(PART_MAX);
  expect(residentMb() - beforeMb).toBeLessThan(GROWTH_MB_MAX);
  db.close();
}, 180_000);
