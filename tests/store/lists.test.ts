// Many lists at once: each grows page by page, so all of them together could take all the memory there is.

import { expect, test } from 'bun:test';
import { ok, type Result } from '../../src/problem.ts';
import type { Database, Row } from '../../src/store/database.ts';
import { createKeyStore } from '../../src/store/key-store.ts';

const LISTS_AT_ONCE = 16;

test('a list begins when few others are under way, and all are answered', async () => {
  const reads: (() => void)[] = [];
  const database: Pick<Database, 'read'> = {
    read: () => new Promise<Result<readonly Row[], never>>((resolve) => reads.push(() => resolve(ok([])))),
  };
  const store = createKeyStore({ primary: database as Database, usesPerWrite: 1 });
  const answers = Array.from({ length: 100 }, () => store.listByUser('alice'));
  for (let answered = 0; answered < answers.length; answered += 1) {
    await Bun.sleep(0);
    expect(reads.length).toBe(Math.min(LISTS_AT_ONCE, answers.length - answered));
    reads.shift()?.();
  }
  for (const answer of await Promise.all(answers)) expect(answer).toEqual(ok([]));
});
