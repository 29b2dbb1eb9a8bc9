// The short form of `bun run fuzz`, in every setting but the plain one, which is in memory.alone.test.ts: always the same
// inputs, except for the keys and tokens in them.

import { expect, test } from 'bun:test';
import { rows } from '../../support/everything.ts';
import { fuzz } from './fuzz.ts';
import { notReached, type SettingName } from './settings.ts';

test.each<[number, SettingName]>(
  rows(
    [
      [600, 'production'],
      [600, 'limited'],
      [600, 'issuer'],
      [1000, 'remote'],
      [3000, 'away'], // so that there are enough in each state of the database
      [3000, 'replica'],
    ],
    2,
  ),
)(
  '%d hostile inputs: no 5xx except 503, no crash, no hang, no secret let out, %s',
  async (wanted, setting) => {
    const { inputs, statuses } = await fuzz({
      setting,
      seed: 7,
      inputs: wanted,
      seconds: 240,
      until: (seen) => notReached(setting, seen).length === 0,
    });
    expect(inputs).toBeGreaterThanOrEqual(wanted);
    expect(notReached(setting, statuses)).toEqual([]);
  },
  300_000, // on a machine that is ten times slower, too
);
