// Another program that holds the file of a server again and again, most times for a moment and sometimes for longer than
// writes wait, while clients create keys: SQLITE_BUSY is no loss, and nothing is done twice.

import { join } from 'node:path';
import { callOver, userHeaders } from '../../support/client.ts';
import { openDatabase } from '../../support/database-client.ts';
import { diskFolder } from '../../support/folder.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const CLIENTS = 16;
const HOLD_MS_MAX = 150;
/** Longer than the 5 s that a write waits. */
const LONG_HOLD_MS = 6000;
const LONG_EVERY = 12;

export async function beside({ holds }: { holds: number }) {
  const url = `file:${join(diskFolder(), 'keys.db')}`;
  const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: url, LOG_LEVEL: 'error', RATE_LIMIT_REQUESTS: '0' };
  await using server = await startServer({ env });
  const acknowledged = new Set<string>();
  /** Those that got 503. */
  const refused = new Set<string>();
  /** Acknowledged and not there, refused and there, other statuses, integrity. */
  const faults: string[] = [];
  let ending = false;

  async function client(name: string): Promise<void> {
    for (let turn = 0; !ending; turn += 1) {
      const user = `${name}-${turn}`;
      const input = { name: user, scopes: [] };
      const { status, body } = await callOver(server.url, 'create_api_key', input, await userHeaders(user));
      if (status === 200) acknowledged.add(body.id);
      else if (status === 503) refused.add(user);
      else faults.push(`${user}: ${status}`);
    }
  }

  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, nth) => client(`client ${nth}`)));
  const foreign = openDatabase(url);
  for (let hold = 1; hold <= holds; hold += 1) {
    const before = acknowledged.size;
    while (acknowledged.size < before + CLIENTS) await Bun.sleep(1);
    await foreign.execute('BEGIN IMMEDIATE');
    await Bun.sleep(hold % LONG_EVERY === 0 ? LONG_HOLD_MS : Math.random() * HOLD_MS_MAX);
    await foreign.execute('COMMIT');
  }
  ending = true;
  await clients;
  await server.kill();

  const { rows } = await foreign.execute('SELECT id, name FROM api_keys');
  const { rows: integrity } = await foreign.execute('PRAGMA integrity_check');
  foreign.close();
  const ids = new Set(rows.map(({ id }) => String(id)));
  const names = rows.map(({ name }) => String(name));
  for (const id of acknowledged) if (!ids.has(id)) faults.push(`lost: ${id}`);
  for (const name of names) if (refused.has(name)) faults.push(`refused, and there: ${name}`);
  if (ids.size !== acknowledged.size) faults.push(`${ids.size} keys, ${acknowledged.size} acknowledged`);
  if (integrity[0]?.integrity_check !== 'ok') faults.push(JSON.stringify(integrity));
  return { held: holds, acknowledged: acknowledged.size, refused: refused.size, faults };
}
