// `bun tests/lab/bench/edge.ts`: what one key, poll, read and flush cost, on a file and on a real sqld: how many servers one
// database can carry.

import { statSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { createLruCache } from '../../../src/ground/cache.ts';
import { DAY_S, dayAt } from '../../../src/ground/limits/rates.ts';
import { systemClock, systemRandom } from '../../../src/ground/runtime.ts';
import { createOriginOf } from '../../../src/keys/actor.ts';
import { type ApiKeyRecord, hashKey, mintId, mintKey, NEW_KEY } from '../../../src/keys/record.ts';
import { openStore, type Store } from '../../../src/store/open.ts';
import { createLog } from '../../../src/watch/log.ts';
import { AS_OF } from '../../support/embedded.ts';
import { startSqld } from '../../support/sqld.ts';
import { buildDatabase } from './database.ts';
import { machineLine, markdown } from './report.ts';

const FILE_KEYS = 100_000;
const CACHED_KEYS = 50_000;
const REMOTE_KEYS = 1000;
const ASK_MS = 3000;

const newRecord = (index: number): ApiKeyRecord => ({
  ...NEW_KEY,
  id: mintId(systemRandom),
  userId: `user-${index}`,
  name: `key ${index}`,
  keyHash: hashKey(Bun.SHA256.hash, mintKey('sk', false, systemRandom)),
  scopes: ['read', 'read:orders'],
  createdAtMs: Date.now(),
  expiresAtMs: null,
});

const ORIGIN = createOriginOf(false)('command', { requestId: 'bench', clientAddress: () => '' });

async function bytesAKeyInAFile(): Promise<number> {
  const { path } = await buildDatabase(FILE_KEYS);
  return statSync(path).size / FILE_KEYS;
}

function bytesACachedKey(): number {
  const cache = createLruCache<object>({ entries: 2 * CACHED_KEYS });
  const usedBytes = () => {
    Bun.gc(true);
    return process.memoryUsage().heapUsed;
  };
  const before = usedBytes();
  for (let index = 0; index < CACHED_KEYS; index += 1) {
    const record: ApiKeyRecord = JSON.parse(JSON.stringify(newRecord(index))); // its own strings, as when it is read
    cache.set(record.keyHash, { record, believedUntilMs: 0 });
  }
  const bytes = (usedBytes() - before) / CACHED_KEYS;
  if (cache.get('') !== undefined) throw new Error('not a key'); // the cache is in use until here, or it would be collected
  return bytes;
}

interface Tap extends AsyncDisposable {
  readonly url: string;
  /** Asks twice: once uncompressed, to count rows, and once as usual, to count bytes. */
  during(ask: () => Promise<unknown>): Promise<{ rowsRead: number; bytes: number }>;
}

/** A TCP proxy that counts bytes, headers included, and the rows that the primary says it has read. */
async function startTap(target: string): Promise<Tap> {
  const { hostname, port } = new URL(target);
  let bytes = 0;
  let responses = '';
  let legible = false; // true: asks for responses that are not compressed
  const listener = createServer((client) => {
    const server = connect(Number(port), hostname);
    client.on('data', (chunk) => {
      bytes += chunk.length;
      server.write(legible ? Buffer.from(chunk.toString().replace(/^accept-encoding:.*\r\n/im, '')) : chunk);
    });
    server.on('data', (chunk) => {
      bytes += chunk.length;
      responses += chunk.toString();
      client.write(chunk);
    });
    client.on('close', () => server.destroy());
    server.on('close', () => client.destroy());
    for (const socket of [client, server]) socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    async during(ask) {
      responses = '';
      legible = true;
      await ask();
      const rowsRead = [...responses.matchAll(/"rows_read":(\d+)/g)].reduce((sum, [, rows]) => sum + Number(rows), 0);
      bytes = 0;
      legible = false;
      await ask();
      return { rowsRead, bytes };
    },
    async [Symbol.asyncDispose]() {
      listener.close();
    },
  };
}

async function asked(tap: Tap, store: Store): Promise<string[][]> {
  const records = Array.from({ length: REMOTE_KEYS }, (_, index) => newRecord(index));
  for (const record of records) await store.insert(record, ORIGIN);
  for (const { userId, id } of records.slice(0, REMOTE_KEYS / 2)) await store.deactivate(userId, id, ORIGIN);
  const page = await store.changesAfter({ databaseId: '', seq: 0, mark: null }, ASK_MS);
  const { databaseId, newestSeq, newestMark, changes } = page;
  const position = { databaseId, seq: newestSeq, mark: newestMark };
  const before = { ...position, seq: newestSeq - 1, mark: changes.at(-2)?.mark ?? null };
  const usedAtMs = Date.now();
  const day = dayAt(usedAtMs);
  let number = 0;
  const useAll = () => {
    number += 1;
    return store.addUses({
      instance: 'edge',
      number,
      windows: records.map(({ id }) => [id, null, DAY_S, day, day, 1, usedAtMs + number]),
    });
  };
  await useAll(); // from the second use on a row is changed, not made
  const questions: Record<string, () => Promise<unknown>> = {
    'a poll that finds nothing new': () => store.changesAfter(position, ASK_MS),
    'a poll that finds one change': () => store.changesAfter(before, ASK_MS),
    'the first read of a key': () =>
      store.findByHashes([records.at(-1)?.keyHash ?? ''], { atLeast: position, withinMs: ASK_MS, asOf: AS_OF }),
    [`the uses of ${REMOTE_KEYS.toLocaleString('en')} keys, one write`]: useAll,
  };
  const rows: string[][] = [];
  for (const [name, question] of Object.entries(questions)) {
    const { rowsRead, bytes } = await tap.during(question);
    rows.push([name, rowsRead.toLocaleString('en'), bytes.toLocaleString('en')]);
  }
  return rows;
}

await using sqld = await startSqld();
await using tap = await startTap(sqld.url);
const log = createLog({ level: 'error', clock: systemClock, write: async () => {} });
const store = await openStore(
  { mode: 'remote', url: tap.url, authToken: null, replicaFile: null },
  { clock: systemClock, log, eventDays: 400, usageDays: 31 },
);
const rows = await asked(tap, store);
await store.close();
process.stdout.write(
  [
    machineLine(),
    '',
    `A key in a file: ${(await bytesAKeyInAFile()).toFixed(0)} bytes. A known key in memory: ${bytesACachedKey().toFixed(0)} bytes.`,
    '',
    markdown(['Asked of the primary', 'Rows read', 'Bytes both ways'], rows),
    '',
  ].join('\n'),
);
process.exit(0); // connections through the tap are kept open
