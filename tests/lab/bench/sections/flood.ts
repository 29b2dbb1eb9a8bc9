// Floods of keys that don't work, from one address, and what callers with a valid key keep beside them.

import { buildDatabase } from '../database.ts';
import { type Load, malformedKeys, responseTo, restGetData, unknownKeys } from '../loads.ts';
import { measure, median, perSecond, ratio } from '../measure.ts';
import { startBare, startOurs } from '../ours.ts';
import type { Plan } from '../plan.ts';
import type { Process } from '../process.ts';
import { atLeast, type Section } from '../report.ts';
import { drive } from '../wrk.ts';

export const flood: Section = async (plan) => {
  const { path, keys } = await buildDatabase(1000);
  await using ours = await startOurs(path);
  await using bare = await startBare(await responseTo(ours, malformedKeys, 401));
  const measured = await measure(
    {
      bareStill: { server: bare, load: malformedKeys, refused: true },
      malformed: { server: ours, load: malformedKeys, refused: true },
      bareVaried: { server: bare, load: unknownKeys, refused: true },
      unknown: { server: ours, load: unknownKeys, refused: true },
    },
    plan,
  );
  const share = await shareKept(ours, keys[0] ?? '', unknownKeys, plan);
  const { malformed, unknown, bareStill, bareVaried } = measured;
  return {
    rows: [
      { name: 'bare limit, 401', measured: bareStill },
      { name: '**flood of malformed keys**', measured: malformed, bare: bareStill },
      { name: 'bare limit, 401, a new key each time', measured: bareVaried },
      { name: '**flood of unknown keys, a new one each time**', measured: unknown, bare: bareVaried },
    ],
    targets: [
      atLeast('flood of malformed keys, share of the bare limit', ratio(malformed, bareStill, perSecond), 0.5),
      atLeast('share that valid callers keep beside a flood', share, 0.85),
    ],
  };
};

/** Throughput of callers with a key beside a flood, as a share of theirs beside as many other such callers. */
export async function shareKept(server: Process, key: string, flood: Load, { rounds, roundS }: Plan): Promise<number> {
  const valid = restGetData(key);
  const shares: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const [amongValid] = await Promise.all([drive(server, valid, roundS), drive(server, valid, roundS)]);
    const [besideFlood] = await Promise.all([drive(server, valid, roundS), drive(server, flood, roundS)]);
    server.emptyLog();
    if (besideFlood.refused > 0) throw new Error(`${besideFlood.refused} valid calls were refused beside a flood`);
    shares.push(besideFlood.perSecond / amongValid.perSecond);
  }
  return median(shares);
}
