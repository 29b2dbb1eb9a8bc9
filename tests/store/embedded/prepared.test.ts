// Statements that the process compiles once and keeps.

import { expect, spyOn, test } from 'bun:test';
import { DatabaseSync } from 'node:sqlite';
import { bearer, createTestApp } from '../../support/test-app.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
/** More than there are places for statements. */
const DAYS = 250;

test('a server that has run for months compiles the statement of a day once, as on its first day', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  await app.createKey('alice');
  const compiling = spyOn(DatabaseSync.prototype, 'prepare');
  try {
    for (let day = 0; day < DAYS; day += 1) {
      const alice = await bearer(app, 'alice');
      compiling.mockClear();
      for (let lists = 0; lists < 2; lists += 1) expect((await app.call('list_api_keys', {}, alice)).status).toBe(200);
      const compiled = compiling.mock.calls.map(([sql]) => sql);
      expect({ day, again: compiled.length - new Set(compiled).size }).toEqual({ day, again: 0 });
      app.clock.advance(DAY_MS);
    }
  } finally {
    compiling.mockRestore();
  }
});
