// Four processes that create keys in one file, beside one that has it alone: do they get in each other's way? On the disk,
// for which they wait: in memory they would only share the processor.

import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { diskFolder } from '../../../support/folder.ts';
import { buildDatabase, userTokens } from '../database.ts';
import { createKey } from '../loads.ts';
import { median } from '../measure.ts';
import { startOurs } from '../ours.ts';
import type { Process } from '../process.ts';
import { atLeast, type Section } from '../report.ts';
import { drive } from '../wrk.ts';

const PROCESSES = 4;
/** One user may hold a thousand keys; with this many users none reaches that. */
const USERS = 2000;
const WARMUP_S = 2;

export const oneFile: Section = async ({ rounds, roundS }) => {
  const [shared, own] = [await onDisk(), await onDisk()];
  const load = createKey(await userTokens(USERS));
  await using alone = await startOurs(own);
  await using together = new AsyncDisposableStack();
  const servers: Process[] = [];
  for (let made = 0; made < PROCESSES; made += 1) servers.push(together.use(await startOurs(shared)));

  /** Creations a second, by all of them. */
  async function created(by: readonly Process[], seconds: number): Promise<number> {
    const runs = await Promise.all(by.map((server) => drive(server, load, seconds)));
    const refused = runs.reduce((sum, run) => sum + run.refused, 0);
    if (refused > 0) throw new Error(`${refused} creations were refused`);
    for (const server of by) server.emptyLog();
    return runs.reduce((sum, run) => sum + run.perSecond, 0);
  }

  await created(servers, WARMUP_S);
  await created([alone], WARMUP_S);
  const shares: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const one = await created([alone], roundS);
    shares.push((await created(servers, roundS)) / one);
  }
  return {
    rows: [],
    targets: [atLeast(`creations by ${PROCESSES} processes on one file, of one process's`, median(shares), 0.9)],
  };
};

async function onDisk(): Promise<string> {
  const path = join(diskFolder(), 'keys.db');
  copyFileSync((await buildDatabase(1000)).path, path);
  return path;
}
