// The short form of `bun run fuzz`, in every setting but the plain one, which is in memory.alone.test.ts: always the same
// inputs, except for the keys and tokens in them.

import { expect, test } from 'bun:test';
import { fuzz } from './fuzz.ts';
import { notReached, type SettingName } from './settings.ts';

test.each<SettingName>(['production', 'issuer', 'limited', 'remote', 'away', 'replica'])(
  '1,000 hostile inputs: no 5xx except 503, no crash, no hang, no secret let out, %s',
  async (setting) => {
    const { inputs, statuses } = await fuzz({ setting, seed: 7, inputs: 1000, seconds: 240 });
    expect(inputs).toBeGreaterThanOrEqual(1000);
    expect(notReached(setting, statuses)).toEqual([]);
  },
  300_000, // on a machine that is ten times slower, too
);
