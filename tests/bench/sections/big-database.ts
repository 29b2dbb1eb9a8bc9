// A thousand keys in use, in a database of a thousand and in one of a million.

import { buildDatabase } from '../database.ts';
import { manyKeys } from '../loads.ts';
import { measure, perSecond, ratio } from '../measure.ts';
import { startOurs } from '../ours.ts';
import { atLeast, type Section } from '../report.ts';

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
  return {
    rows: [
      { name: 'get_data, 1,000 keys in turn of 1,000', measured: measured.small },
      { name: '**get_data, 1,000 keys in turn of 1,000,000**', measured: measured.large },
    ],
    targets: [
      atLeast('1,000,000 keys in the database, share of 1,000', ratio(measured.large, measured.small, perSecond), 0.9),
    ],
  };
};
