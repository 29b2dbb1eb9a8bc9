// What a server writes and removes by itself, while it serves: how long that holds up the event loop of a real one.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { builtLibrary, noLibrary } from '../../support/c-library.ts';
import { openDatabase } from '../../support/database-client.ts';
import { fillKeys } from '../../support/fill.ts';
import { diskFolder } from '../../support/folder.ts';
import { LOOP_MONITOR, longestPauseMs } from '../../support/loop-pauses.ts';
import { type ServerProcess, startServer, untilOpen } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { buildDatabase } from '../bench/database.ts';
import { median } from '../bench/measure.ts';
import { ourEnv } from '../bench/ours.ts';
import { flushPauses } from '../kills/flush-pauses.ts';

const missing = noLibrary();
if (missing !== null) console.log(`A slow disk is not tested: ${missing}`);

const PAUSE_MS_MAX = 10;
/** The median counts: a flush, or a pruning, does its work every time, the machine disturbs only some. */
const TIMES = 3;

test('while 10,000 keys are used and their last uses written no pause of the event loop exceeds 10 ms', async () => {
  expect(median(await flushPauses(10_000, TIMES))).toBeLessThanOrEqual(PAUSE_MS_MAX);
}, 300_000);

const OLD = 10_000;

/** For each key an old event, an old change, and counts of a month that is over, and of two that are too old. */
const MAKE_OLD = [
  'UPDATE key_events SET at_ms = 1 WHERE seq < (SELECT max(seq) FROM key_events)',
  'INSERT INTO changes (key_hash, changed_at_ms) SELECT key_hash, 1 FROM api_keys',
  `INSERT INTO key_months (row, month, d1, d2)
SELECT row, strftime('%Y') * 12 + strftime('%m') - months.value, 1, 1 FROM api_keys, json_each('[2, 6, 7]') AS months`,
];

/** The newest event and the newest change stay. */
const ANY_LEFT = `SELECT (SELECT count(*) FROM key_events) > 1 OR (SELECT count(*) FROM changes) > 1
OR EXISTS (SELECT 1 FROM key_months WHERE month < strftime('%Y') * 12 + strftime('%m') - 5) AS is_left`;

/** The longest pause while what is old is removed, which a server begins by itself after a moment. */
async function prunePauseMs(): Promise<number> {
  const { path } = await buildDatabase(OLD);
  using client = openDatabase(`file:${path}`);
  for (const sql of MAKE_OLD) await client.execute(sql);
  await client.execute('PRAGMA wal_checkpoint(TRUNCATE)'); // or the server's first commit would move all of it into the file
  Bun.spawnSync(['sync']); // or this would wait for what was written here
  await using server = await startServer({ env: { ...ourEnv(path), LOG_LEVEL: 'warn' }, preload: [LOOP_MONITOR] });
  await longestPauseMs(server); // of the start
  await waitFor(async () => (await client.execute(ANY_LEFT)).rows[0]?.is_left === 0);
  const pauseMs = await longestPauseMs(server);
  return pauseMs;
}

test(`while ${OLD} events, changes and months of counts are removed no pause of the event loop exceeds 10 ms`, async () => {
  const pausesMs: number[] = [];
  for (let time = 0; time < TIMES; time += 1) pausesMs.push(await prunePauseMs());
  expect(median(pausesMs)).toBeLessThanOrEqual(PAUSE_MS_MAX);
}, 300_000);

const source = (waitMs: number) => `
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int waited(long call, int file) {
  struct timespec wait = { 0, ${waitMs * 1_000_000} };
  nanosleep(&wait, 0);
  return (int)syscall(call, file);
}

int fsync(int file) { return waited(SYS_fsync, file); }
int fdatasync(int file) { return waited(SYS_fdatasync, file); }
`;

/** Returns the environment of a process whose disk takes its time. */
const slowDisk = (waitMs: number) => ({ LD_PRELOAD: builtLibrary(source(waitMs)) });

const COPIED = 5000;
const DISK_MS = 200;
const REPLICA_PAUSE_MS_MAX = 50;

/** The longest pause while a replica takes over keys, whose disk takes long. */
async function replicaPauseMs(): Promise<number> {
  await using sqld = await startSqld();
  const file = join(diskFolder(), 'replica.db');
  const env = { JWT_SECRET: TEST_SECRET, ...sqld.env, DATABASE_REPLICA_FILE: file };
  const opened = ({ stdout }: ServerProcess) => waitFor(async () => stdout().includes('replica opened'));
  await using first = await startServer({ env });
  await opened(first);
  await first.stop();
  const client = openDatabase(sqld.url);
  await fillKeys(client, COPIED);
  client.close();
  await using server = await startServer({ env: { ...env, ...slowDisk(DISK_MS) }, preload: [LOOP_MONITOR] });
  await untilOpen(server);
  await longestPauseMs(server); // of the start
  await opened(server);
  return await longestPauseMs(server); // before it is killed
}

test.skipIf(missing !== null)(
  `while a replica takes over ${COPIED} keys no pause of the event loop exceeds ${REPLICA_PAUSE_MS_MAX} ms, with a disk that takes ${DISK_MS}`,
  async () => {
    const pausesMs: number[] = [];
    for (let time = 0; time < TIMES; time += 1) pausesMs.push(await replicaPauseMs());
    expect(median(pausesMs)).toBeLessThanOrEqual(REPLICA_PAUSE_MS_MAX);
  },
  300_000,
);
