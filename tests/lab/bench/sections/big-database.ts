// A thousand keys in use, in a database of a thousand and in one of a million: using them, and starting.

import { buildDatabase } from '../database.ts';
import { manyKeys } from '../loads.ts';
import { measure, median, perSecond, ratio } from '../measure.ts';
import { startOurs } from '../ours.ts';
import { atLeast, atMost, type Section } from '../report.ts';

const IN_USE = 1000;
const MILLION = 1_000_000;

export const bigDatabase: Section = async (plan) => {
  const small = await buildDatabase(IN_USE);
  const large = await buildDatabase(IN_USE, MILLION - IN_USE);
  await using onSmall = await startOurs(small.path);
  await using onLarge = await startOurs(large.path);
  const measured = await measure(
    {
      small: { server: onSmall, load: manyKeys(small.keys) },
      large: { server: onLarge, load: manyKeys(large.keys) },
    },
    plan,
  );
  const extraStartMs: number[] = [];
  for (let round = 0; round < plan.starts; round += 1) {
    extraStartMs.push((await startMs(large.path)) - (await startMs(small.path)));
  }
  return {
    rows: [
      { name: 'get_data, 1,000 keys in turn of 1,000', measured: measured.small },
      { name: '**get_data, 1,000 keys in turn of 1,000,000**', measured: measured.large },
    ],
    targets: [
      atLeast('1,000,000 keys in the database, share of 1,000', ratio(measured.large, measured.small, perSecond), 0.9),
      atMost('start on 1,000,000 keys, more than on 1,000', median(extraStartMs), 50, ' ms'),
    ],
  };
};

async function startMs(path: string): Promise<number> {
  const startedAtMs = performance.now();
  await using _server = await startOurs(path);
  return performance.now() - startedAtMs;
}
