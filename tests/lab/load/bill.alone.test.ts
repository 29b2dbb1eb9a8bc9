// What a server costs at a database that bills rows is what src/store/README.md says, as bill.ts prints it.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { output } from '../../support/command.ts';
import { ROOT, readDocument } from '../../support/documents.ts';

const SAID =
  /idle replica reads (\d+) a second.*reads (\d+) a second and writes (\d+); an idle one\s+without replica reads none/s;

test('the bill of 100 keys in use, and of a replica that nobody uses, is at most what the document says', async () => {
  const [, polls = '', read = '', written = ''] = SAID.exec(readDocument('src/store/README.md').text) ?? [];
  expect([polls, read, written]).not.toContain(''); // the sentence is there
  const command = [process.execPath, join(ROOT, 'tests/lab/bill.ts'), '--seconds', '6'];
  const [, , ...lines] = (await output(command, { cwd: ROOT })).trim().split('\n');
  const cells = lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  expect(cells.map(([store, keys]) => `${store}, ${keys} keys`)).toEqual([
    'remote, 0 keys',
    'remote, 100 keys',
    'replica, 0 keys',
    'replica, 100 keys',
  ]);
  const [idle = [], busy = [], idleReplica = [], busyReplica = []] = cells.map((row) => row.slice(2).map(Number));
  expect(idle).toEqual([0, 0]);
  expectAtMost([Number(polls), 0], idleReplica);
  expectAtMost([Number(read), Number(written)], busy);
  expectAtMost([Number(read) + Number(polls), Number(written)], busyReplica);
}, 180_000); // four servers, one after the other, each for some seconds

/** Expects rows a second to be at most a tenth more than was said, and more than a third: a busy machine is slower. */
function expectAtMost(said: readonly number[], rows: readonly number[]): void {
  for (const [nth, most] of said.entries()) {
    expect(rows[nth]).toBeLessThanOrEqual(1.1 * most);
    expect(rows[nth]).toBeGreaterThanOrEqual(most / 3);
  }
}
