// An honest caller beside a load.

import { expect } from 'bun:test';
import { userOn } from '../../support/client.ts';
import { median, msOf } from '../bench/measure.ts';

const CALLS = 50;

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
