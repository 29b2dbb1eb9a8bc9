// What is left of many streams, after a full collection: without one, the runtime's own garbage is larger than ours.

import { heapStats } from 'bun:jsc';
import { expect, test } from 'bun:test';
import { streamRounds } from '../support/raw-sse.ts';
import { createTestApp } from '../support/test-app.ts';
import { until } from '../support/until.ts';

const STREAMS = 1000;
const ROUNDS = 5;

test('five rounds of 1,000 streams leave no session behind, and no memory', async () => {
  await using app = await createTestApp();
  const measure = () => {
    Bun.gc(true);
    return { rssBytes: process.memoryUsage.rss(), objects: heapStats().objectCount };
  };
  const rounds = await streamRounds({ url: app.url, streams: STREAMS, rounds: ROUNDS, measure });
  expect(rounds.map(({ sessions }) => sessions)).toEqual(Array(ROUNDS).fill(0));
  // What leaks is there in every later round; what the runtime warms up with in the first is not.
  const [, second, , ...last] = rounds;
  if (second === undefined) throw new Error('no rounds');
  expect(Math.min(...last.map(({ rssBytes }) => rssBytes)) / second.rssBytes).toBeLessThan(1.1);
  // The runtime frees some objects a while later; what leaks is never freed.
  await until(() => measure().objects < 1.1 * second.objects);
}, 60_000);
