// A store on a file, opened, without an app.

import { createLog } from '../../src/start/package/index.ts';
import { openStore } from '../../src/store/open.ts';
import { testClock } from './clock.ts';

export async function openEmbedded(path: string) {
  const clock = testClock();
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const store = await openStore({ mode: 'embedded', path }, { clock, log, eventDays: 400, usageDays: 31 });
  return { db: store.db, store, close: store.close };
}
