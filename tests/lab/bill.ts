// `bun tests/lab/bill.ts [--seconds 12] [checkout]`: the rows that a server reads and writes at its primary in a second, for
// which hosted databases send a bill; of this source, or of another checkout. src/store/README.md has the figures.

import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { useKey } from '../support/cluster.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type RowsProxy, startRowsProxy } from '../support/rows-proxy.ts';
import { type ServerProcess, startServer, untilOpen } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { addKeys } from './bench/database.ts';
import { markdown } from './bench/report.ts';

const KEYS = 100;
/** The start, and what a new replica reads, is over. */
const SETTLED_MS = 5000;
const ROUND_MS = 200;

const { values, positionals } = parseArgs({
  options: { seconds: { type: 'string', default: '12' } },
  allowPositionals: true,
});
const measuredMs = Number(values.seconds) * 1000;
const [root] = positionals;

function startOn(url: string, env: Record<string, string> = {}) {
  const all = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '1000000', DATABASE_URL: url, ...env };
  return startServer({ env: all, ...(root !== undefined && { root }) });
}

async function fill(url: string): Promise<string[]> {
  await using maker = await startOn(url); // makes the schema
  await untilOpen(maker);
  return addKeys(url, KEYS);
}

/** Uses keys until their counts have been exchanged: their rows come all at once, every few seconds. */
async function useUntilExchange(proxy: RowsProxy, server: ServerProcess): Promise<void> {
  const exchanges = () => proxy.rows('AS uses FROM (').statements; // the totals come last
  for (const before = exchanges(); exchanges() === before; ) {
    for (const key of keys) await useKey(server, key);
    await Bun.sleep(ROUND_MS);
  }
}

/** Returns the rows that are read and written in a second, with no key in use or with all of them. */
async function rowsOf(url: string, isBusy: boolean, env: Record<string, string>): Promise<number[]> {
  await using proxy = startRowsProxy(url);
  await using server = await startOn(proxy.url, env);
  await untilOpen(server);
  const pass = () => (isBusy ? useUntilExchange(proxy, server) : Bun.sleep(ROUND_MS));
  await pass();
  await Bun.sleep(SETTLED_MS);
  await pass();
  proxy.forget();
  const beganMs = performance.now();
  do await pass();
  while (performance.now() - beganMs < measuredMs);
  const { read, written } = proxy.rows();
  const seconds = (performance.now() - beganMs) / 1000;
  return [read / seconds, written / seconds];
}

await using sqld = await startSqld();
const keys = await fill(sqld.url);
const lines: string[][] = [];
for (const isReplica of [false, true]) {
  for (const isBusy of [false, true]) {
    const env = isReplica ? { DATABASE_REPLICA_FILE: join(temporaryFolder(), 'replica.db') } : {};
    const rows = await rowsOf(sqld.url, isBusy, env);
    lines.push([isReplica ? 'replica' : 'remote', String(isBusy ? KEYS : 0), ...rows.map((row) => row.toFixed(1))]);
  }
}
const heads = ['store', 'keys in use', 'rows read a second', 'rows written a second'];
console.log(markdown(heads, lines));
