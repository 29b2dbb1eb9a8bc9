// Ten thousand keys in turn, not in the order in which they were made, in rounds long enough for their last uses to be
// written meanwhile.

import { buildDatabase, shuffled } from '../database.ts';
import { manyKeys, responseTo } from '../loads.ts';
import { measure, p99Ms, perSecond, ratio } from '../measure.ts';
import { startBare, startOurs } from '../ours.ts';
import { atLeast, atMost, type Section } from '../report.ts';

const KEYS = 10_000;

export const keysInUse: Section = async (plan) => {
  const { path, keys: made } = await buildDatabase(KEYS);
  const keys = shuffled(made);
  const all = manyKeys(keys);
  const one = manyKeys(keys.slice(0, 1)); // the same work for wrk
  await using ours = await startOurs(path);
  await using bare = await startBare(await responseTo(ours, all));
  const measured = await measure(
    { bare: { server: bare, load: all }, one: { server: ours, load: one }, all: { server: ours, load: all } },
    { ...plan, rounds: plan.flushRounds, roundS: plan.flushRoundS },
  );
  return {
    rows: [
      { name: 'bare limit, keys in turn', measured: measured.bare },
      { name: 'get_data, 1 key in turn', measured: measured.one, bare: measured.bare },
      { name: '**get_data, 10,000 keys in turn, lastUsedAt written**', measured: measured.all, bare: measured.bare },
    ],
    targets: [
      atLeast('10,000 keys in turn, share of one key', ratio(measured.all, measured.one, perSecond), 0.75),
      atMost(
        'p99 while lastUsedAt of 10,000 keys is written, in bare limits',
        ratio(measured.all, measured.bare, p99Ms),
        2.2,
      ),
    ],
  };
};
