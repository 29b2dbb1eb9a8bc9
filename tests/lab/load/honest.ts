// An honest caller beside a load, and what the load may cost.

import { expect } from 'bun:test';
import { userOn } from '../../support/client.ts';
import { median, msOf } from '../bench/measure.ts';

const CALLS = 50;
/** At any moment, the server itself and the garbage between two collections included. */
const RESIDENT_MB_MAX = 256;
/** Of an honest caller's calls, at the median. */
const MEDIAN_MS_MAX = 100;

/** Expects that a load took little memory, and nobody's time. */
export function expectLittle({
  residentMb,
  medianMs,
}: {
  readonly residentMb: number;
  readonly medianMs: number;
}): void {
  expect(residentMb).toBeLessThan(RESIDENT_MB_MAX);
  expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
}

/** Makes a key; returns what calls with it again and again, and returns the median of the milliseconds that took. */
export async function honestCaller(url: string): Promise<() => Promise<number>> {
  const alice = await userOn({ url });
  const { body } = await alice.create();
  return async () => {
    const tookMs: number[] = [];
    for (let call = 0; call < CALLS; call += 1) {
      tookMs.push(await msOf(async () => expect(await alice.use(body.key)).toBe(200)));
    }
    return median(tookMs);
  };
}
