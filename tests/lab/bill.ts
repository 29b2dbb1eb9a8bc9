// `bun tests/lab/bill.ts [checkout]`: the rows that a server reads and writes at its primary in a second, for which hosted
// databases send a bill; of this source, or of another checkout. src/store/README.md has the figures.

import { join } from 'node:path';
import { useKey } from '../support/cluster.ts';
import { openDatabase } from '../support/database-client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startRowsProxy } from '../support/rows-proxy.ts';
import { startServer, untilOpen } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { newKey } from './bench/database.ts';
import { BENCH_SECRET } from './bench/ours.ts';

const KEYS = 100;
const MEASURED_MS = 12_000;
/** The start, and what a new replica reads, is over. */
const SETTLED_MS = 5000;
const ROUND_MS = 200;

const root = process.argv[2];
const keys = Array.from({ length: KEYS }, newKey);

function startOn(url: string, env: Record<string, string> = {}) {
  const all = { JWT_SECRET: BENCH_SECRET, RATE_LIMIT_REQUESTS: '1000000', DATABASE_URL: url, ...env };
  return startServer({ env: all, ...(root !== undefined && { root }) });
}

async function fill(url: string): Promise<void> {
  await using maker = await startOn(url); // makes the schema
  await untilOpen(maker);
  const db = openDatabase(url);
  await db.execute({
    sql: `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT value ->> 0, 'alice', 'k', value ->> 1, '["read"]', 1, ?2 FROM json_each(?1)`,
    args: [JSON.stringify(keys.map(({ id, hash }) => [id, hash])), Date.now()],
  });
  db.close();
}

/** Returns rows a second, with no key in use or with all of them. */
async function rowsOf(url: string, isBusy: boolean, env: Record<string, string>): Promise<Record<string, number>> {
  await using proxy = startRowsProxy(url);
  await using server = await startOn(proxy.url, env);
  await untilOpen(server);
  const useAll = async () => {
    for (const { key } of isBusy ? keys : []) await useKey(server, key);
  };
  await useAll();
  await Bun.sleep(SETTLED_MS);
  proxy.forget();
  const beganMs = performance.now();
  while (performance.now() - beganMs < MEASURED_MS) {
    await useAll();
    await Bun.sleep(ROUND_MS);
  }
  const { read, written } = proxy.rows();
  const seconds = (performance.now() - beganMs) / 1000;
  return { read: Math.round((read / seconds) * 10) / 10, written: Math.round((written / seconds) * 10) / 10 };
}

await using sqld = await startSqld();
await fill(sqld.url);
const table: Record<string, unknown>[] = [];
for (const isReplica of [false, true]) {
  for (const isBusy of [false, true]) {
    const env = isReplica ? { DATABASE_REPLICA_FILE: join(temporaryFolder(), 'replica.db') } : {};
    table.push({ replica: isReplica, 'keys in use': isBusy ? KEYS : 0, ...(await rowsOf(sqld.url, isBusy, env)) });
  }
}
console.table(table);
