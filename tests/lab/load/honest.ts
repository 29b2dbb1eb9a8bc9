// An honest caller beside a load.

import { expect } from 'bun:test';
import { callOver, userHeaders } from '../../support/client.ts';
import { median } from '../bench/measure.ts';

const CALLS = 50;

/** Makes a key; returns what calls with it again and again, and returns the median of the milliseconds that took. */
export async function honestCaller(url: string): Promise<() => Promise<number>> {
  const { body } = await callOver(url, 'create_api_key', { name: 'n', scopes: ['read'] }, await userHeaders('alice'));
  return async () => {
    const tookMs: number[] = [];
    for (let call = 0; call < CALLS; call += 1) {
      const startedMs = performance.now();
      expect((await callOver(url, 'get_data', {}, { 'x-api-key': body.key })).status).toBe(200);
      tookMs.push(performance.now() - startedMs);
    }
    return median(tookMs);
  };
}
