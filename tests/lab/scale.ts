// `bun tests/lab/scale.ts [keys]`: what processes on one file, changes, connections and exchanges of uses cost, for "How it
// grows" in src/store/README.md. The file has so many keys, 100,000 unless given.

import { randomInt } from 'node:crypto';
import { connect } from 'node:net';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { fillKeys } from '../support/fill.ts';
import { diskFolder } from '../support/folder.ts';
import { residentMbOf, type ServerProcess, startServer } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { openEmbedded, openRemote } from '../support/stores.ts';
import { waitFor } from '../support/wait-for.ts';
import { ourEnv } from './bench/ours.ts';
import { fill } from './growth.ts';

const KEYS = Number(process.argv[2] ?? 100_000);
const MEASURED_MS = 3000;
const DAY_S = 86_400;

const folder = diskFolder();
const path = join(folder, 'keys.db');
await fill(path, KEYS, false);

/** Runs `one` again and again, so many at once, and returns how often a second. */
async function perSecond(atOnce: number, one: (nth: number) => Promise<unknown>): Promise<number> {
  let done = 0;
  const beganMs = performance.now();
  const until = beganMs + MEASURED_MS;
  const run = async () => {
    while (performance.now() < until) {
      await one(done);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, run));
  return Math.round((done * 1000) / (performance.now() - beganMs));
}

const start = () => startServer({ env: { ...ourEnv(path), LOG_LEVEL: 'error' } });
const owners = await Promise.all(Array.from({ length: 1000 }, (_, nth) => userHeaders(`creator ${nth}`)));
const use = async ({ url }: ServerProcess, key: string) =>
  (await callOver(url, 'get_data', {}, { 'x-api-key': key })).status;

async function processesOnOneFile(count: number) {
  await using stack = new AsyncDisposableStack();
  const servers: ServerProcess[] = [];
  for (let made = 0; made < count; made += 1) servers.push(stack.use(await start()));
  const create = async (nth: number) => {
    const server = servers[nth % count] as ServerProcess;
    const made = await callOver(server.url, 'create_api_key', { name: 'n', scopes: ['read'] }, owners[nth % 1000]);
    if (made.status !== 200) throw new Error(`a creation responded ${made.status}`);
    return made.body;
  };
  const creations = await perSecond(8, create);
  const delaysMs: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const { id, key } = await create(0);
    for (const server of servers) await use(server, key);
    await callOver((servers[0] as ServerProcess).url, 'revoke_api_key', { keyId: id }, owners[0]);
    const beganMs = performance.now();
    await waitFor(async () => (await Promise.all(servers.map((server) => use(server, key)))).every((is) => is === 401));
    delaysMs.push(performance.now() - beganMs);
  }
  return {
    processes: count,
    'creations a second': creations,
    'revoked everywhere, ms': Math.round(Math.max(...delaysMs)),
    'MB each': Math.round(servers.reduce((sum, { pid }) => sum + residentMbOf(pid), 0) / count),
  };
}

async function changes() {
  const { store, close } = await openEmbedded(path);
  const client = openDatabase(`file:${path}`);
  const rows: Record<string, number>[] = [];
  for (const count of [0, 10, 100, 500]) {
    const { newestSeq: seq } = await store.changesAfter(0, 5000);
    await client.execute(`INSERT INTO changes (key_hash, changed_at_ms)
SELECT lower(hex(randomblob(32))), 0 FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
SELECT i FROM n WHERE i <= ${count})`);
    const polls = await perSecond(1, () => store.changesAfter(seq, 5000));
    rows.push({ changes: count, 'a poll, µs': Math.round(1e6 / polls) });
  }
  client.close();
  await close();
  return rows;
}

async function connections() {
  await using server = await start();
  const { hostname, port } = new URL(server.url);
  const rows: Record<string, number>[] = [];
  const before = residentMbOf(server.pid);
  const sockets = [];
  for (const count of [1000, 4000]) {
    while (sockets.length < count) {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {});
      const answered = new Promise((resolve) => socket.once('data', resolve).once('close', resolve));
      socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      await answered;
      sockets.push(socket);
    }
    rows.push({
      connections: count,
      'KB each': Number((((residentMbOf(server.pid) - before) * 1024) / count).toFixed(1)),
    });
  }
  for (const socket of sockets) socket.destroy();
  return rows;
}

type Opened = Awaited<ReturnType<typeof openEmbedded>>;

/** Keys a second whose uses are written and read, one exchange after the other. */
async function exchanges({ store, db, close }: Opened): Promise<number> {
  const ids = (await db.read({ sql: 'SELECT id FROM api_keys ORDER BY random() LIMIT 20000' })).map(({ id }) =>
    String(id),
  );
  const day = Math.floor(Date.now() / 1000 / DAY_S);
  const at = store.usesPerWrite;
  const exchange = async (number: number) => {
    const from = randomInt(ids.length - at);
    const now = Date.now();
    const windows = ids.slice(from, from + at).map((id) => [id, null, DAY_S, day, day, 1, now] as const);
    await store.addUses({ instance: 'scale', number: number + 1, windows });
    await store.totalsOf(windows.map((one) => [...one]));
  };
  const rate = (await perSecond(1, exchange)) * at;
  await close();
  return rate;
}

const table: Record<string, number>[] = [];
for (const count of [1, 4, 16]) table.push(await processesOnOneFile(count));
console.table(table);
console.table(await changes());
console.table(await connections());
await using sqld = await startSqld();
const remote = await openRemote(sqld.url);
const client = openDatabase(sqld.url);
await fillKeys(client, 20_000);
client.close();
console.table([
  { exchanges: 'file', 'keys a second': await exchanges(await openEmbedded(path)) },
  { exchanges: 'sqld', 'keys a second': await exchanges(remote) },
]);
await sqld.kill();
process.exit(0);
