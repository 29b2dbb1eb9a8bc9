// Two processes that follow with one replica file: what one has read does not overwrite what the other knows by then.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import type { Statement } from '../../../src/store/database.ts';
import { createReplica } from '../../../src/store/replica/replica.ts';
import { testClock } from '../../support/clock.ts';
import { openDatabase } from '../../support/database-client.ts';
import { openEmbedded } from '../../support/embedded.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { waitFor } from '../../support/wait-for.ts';
import { insertCounted } from '../../uses/shared-usage.ts';
import { OPTIONS } from '../backups.ts';

const NAME: Statement = { sql: 'SELECT name FROM api_keys' };

test('what was read before another process moved on is not put in', async () => {
  const folder = temporaryFolder();
  const primary = await openEmbedded(join(folder, 'keys.db'));
  const shell = openDatabase(`file:${join(folder, 'keys.db')}`);
  await insertCounted(primary.store, { rateLimit: null, quota: null });
  let isHeld = false;
  let held: (() => void) | undefined;
  const replicaThat = (readPrimary: (statement: Statement) => ReturnType<typeof primary.db.read>) =>
    createReplica({ ...OPTIONS, clock: testClock(), file: join(folder, 'replica.db'), readPrimary });
  const slow = replicaThat(async (statement) => {
    const rows = await primary.db.read(statement);
    if (isHeld && statement.sql.includes('FROM api_keys t WHERE')) await new Promise<void>((go) => (held = go));
    return rows;
  });
  const quick = replicaThat((statement) => primary.db.read(statement));
  const knows = async (replica: typeof slow, name: string) => (await replica.read(NAME))?.[0]?.name === name;
  for (const replica of [slow, quick]) {
    replica.open();
    await waitFor(() => knows(replica, 'k'));
  }
  isHeld = true;
  await shell.execute("UPDATE api_keys SET name = 'first'");
  slow.open();
  await waitFor(() => held !== undefined);
  await shell.execute("UPDATE api_keys SET name = 'second'");
  quick.open();
  await waitFor(() => knows(quick, 'second'));
  isHeld = false;
  held?.();
  await slow.close(); // after what is under way
  expect(await knows(quick, 'second')).toBe(true);
  await quick.close();
  shell.close();
  await primary.close();
});
