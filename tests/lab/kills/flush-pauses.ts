// The run of pauses.alone.test.ts (seconds) and store.long.ts (minutes) in which last uses and counts are written.

import { statSync } from 'node:fs';
import { useKey } from '../../support/cluster.ts';
import { openDatabase } from '../../support/database-client.ts';
import { fillUses } from '../../support/fill.ts';
import { LOOP_MONITOR, longestPauseMs } from '../../support/loop-pauses.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { waitFor } from '../../support/wait-for.ts';
import { buildDatabase, shuffled } from '../bench/database.ts';
import { ourEnv } from '../bench/ours.ts';

const CALLERS = 32;

/**
 * The longest pause of a real server's event loop in each of so many flushes, while all keys are used in a random order.
 * Each was used on so many days, of which today is the last.
 */
export async function flushPauses(count: number, flushes: number, days = 0): Promise<number[]> {
  const { path, keys } = await buildDatabase(count);
  using reader = openDatabase(`file:${path}`);
  if (days > 0) {
    await fillUses(reader, days);
    await reader.execute('PRAGMA wal_checkpoint(TRUNCATE)');
    console.log(`${count} keys, used for ${days} days: ${Math.round(statSync(path).size / 1e6)} MB`);
  }
  await using server = await startServer({ env: { ...ourEnv(path), LOG_LEVEL: 'warn' }, preload: [LOOP_MONITOR] });

  async function allWritten(sinceMs: number): Promise<void> {
    const sql = 'SELECT count(*) AS written FROM key_months WHERE last_used_at_ms >= ?';
    await waitFor(async () => (await reader.execute({ sql, args: [sinceMs] })).rows[0]?.written === count);
  }

  const longestMs: number[] = [];
  for (let flush = 0; flush <= flushes; flush += 1) {
    Bun.spawnSync(['sync']); // or this would wait for what others have left to write
    const startedAtMs = Date.now();
    await useAll(server, shuffled(keys));
    await allWritten(startedAtMs);
    const pauseMs = await longestPauseMs(server);
    if (flush > 0) longestMs.push(pauseMs); // the first one is compiled meanwhile
  }
  return longestMs;
}

async function useAll(server: ServerProcess, keys: readonly string[]): Promise<void> {
  const left = keys.values();
  await Promise.all(
    Array.from({ length: CALLERS }, async () => {
      for (const key of left) {
        const status = await useKey(server, key);
        if (status !== 200) throw new Error(`a use responded ${status}`);
      }
    }),
  );
}
