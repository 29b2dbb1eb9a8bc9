// The short form of `bun run fuzz`, in every setting: always the same inputs, except for the keys and tokens in them.

import { expect, test } from 'bun:test';
import { type Figures, fuzz } from './fuzz.ts';
import { SETTINGS, type SettingName } from './settings.ts';

/** What the server's memory may grow by while it settles, MB; a leak of 2 KB an input would show. */
const SETTLING_MB = 40;

/** It was not only nonsense: every kind of answer was reached. */
function expectReached(setting: SettingName, { statuses }: Figures): void {
  for (const status of SETTINGS[setting].reached) {
    expect({ status, count: statuses.get(status) ?? 0 }).not.toEqual({ status, count: 0 });
  }
}

test('20,000 hostile inputs: no 5xx except 503, no crash, no hang, no secret let out, memory flat', async () => {
  const figures = await fuzz({ setting: 'plain', seed: 7, inputs: 20_000, seconds: 150 });
  expect(figures.inputs).toBeGreaterThanOrEqual(20_000);
  expectReached('plain', figures);
  const settled = figures.rssMb[Math.floor(figures.rssMb.length / 4)] ?? 0;
  expect(Math.max(...figures.rssMb)).toBeLessThan(settled + SETTLING_MB);
}, 180_000);

test.each<SettingName>(['production', 'issuer', 'limited', 'remote', 'away', 'replica'])(
  '3,000 hostile inputs: the same, %s',
  async (setting) => {
    const figures = await fuzz({ setting, seed: 7, inputs: 3000, seconds: 90 });
    expect(figures.inputs).toBeGreaterThanOrEqual(3000);
    expectReached(setting, figures);
  },
  120_000,
);
