// Prints how long a file is backed up and restored beside a server that creates a key every 30 ms, and what that holds up:
// `bun tests/lab/restoring.ts 100000 1000000`. With `--new` the database holds one key before, with `--uses` each key has a
// month of daily uses.

import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../support/client.ts';
import { diskFolder } from '../support/folder.ts';
import { keysProcess } from '../support/keys-command.ts';
import { LOOP_MONITOR, longestPauseMs } from '../support/loop-pauses.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { ourEnv } from './bench/ours.ts';
import { fill } from './growth.ts';

const EVERY_MS = 30;
/** Each may hold so many keys, and create so many in a minute. */
const OWNERS = 100;
const megabytes = (path: string) => Math.round((statSync(path, { throwIfNoEntry: false })?.size ?? 0) / 1e6);

/** Runs a command beside a server, and returns what that held up. */
async function beside(server: ServerProcess, path: string, args: readonly string[]): Promise<Record<string, number>> {
  await longestPauseMs(server);
  const headers = await Promise.all(Array.from({ length: OWNERS }, (_, owner) => userHeaders(`creator ${owner}`)));
  const taken: number[] = [];
  let refused = 0;
  let isOver = false;
  const create = async () => {
    const beganMs = performance.now();
    const { status } = await callOver(
      server.url,
      'create_api_key',
      { name: 'n', scopes: ['read'] },
      headers[taken.length % OWNERS],
    );
    taken.push(performance.now() - beganMs);
    if (status !== 200) refused += 1;
  };
  const creating = (async () => {
    const all: Promise<void>[] = [];
    for (; !isOver; await Bun.sleep(EVERY_MS)) all.push(create());
    await Promise.all(all);
  })();
  let logMb = 0;
  const watch = setInterval(() => {
    logMb = Math.max(logMb, megabytes(`${path}-wal`));
  }, 100);
  const beganMs = performance.now();
  const { code, stderr } = await keysProcess(ourEnv(path), args);
  const seconds = (performance.now() - beganMs) / 1000;
  if (code !== 0) throw new Error(stderr);
  isOver = true;
  await creating;
  clearInterval(watch);
  return {
    seconds: Number(seconds.toFixed(1)),
    'loop stops, ms': await longestPauseMs(server),
    'creation, ms': Math.round(Math.max(...taken)),
    refused,
    of: taken.length,
    'file, MB': megabytes(path),
    'log, MB': logMb,
  };
}

async function measure(keys: number, words: readonly string[]): Promise<void> {
  const folder = diskFolder();
  const path = join(folder, 'keys.db');
  const backup = join(folder, 'backup.db');
  await fill(path, keys, words.includes('--uses'));
  Bun.spawnSync(['sync']);
  const before = megabytes(path);
  const startOn = (file: string) =>
    startServer({ env: { ...ourEnv(file), LOG_LEVEL: 'warn' }, preload: [LOOP_MONITOR] });
  const rows: Record<string, unknown>[] = [];
  {
    await using server = await startOn(path);
    rows.push({ keys, 'MB before': before, run: 'backup', ...(await beside(server, path, ['backup', backup])) });
    if (!words.includes('--new')) {
      const restored = await beside(server, path, ['restore', backup, '--yes']);
      rows.push({ keys, 'MB before': before, run: 'restore', ...restored });
    }
  }
  if (words.includes('--new')) {
    const other = join(folder, 'other.db');
    await fill(other, 1, false);
    await using server = await startOn(other);
    const restored = await beside(server, other, ['restore', backup, '--yes']);
    rows.push({ keys, 'MB before': megabytes(other), run: 'restore, new', ...restored });
  }
  rmSync(folder, { recursive: true });
  console.table(rows);
}

const words = process.argv.slice(2);
for (const word of words.filter((one) => /^\d+$/.test(one))) await measure(Number(word), words);
process.exit(0);
