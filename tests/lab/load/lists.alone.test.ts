// One user who asks for the largest page of his keys on many connections at once, beside others who ask for theirs.

import { expect, test } from 'bun:test';
import { userOn } from '../../support/client.ts';
import { residentMbOf, startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { median, msOf } from '../bench/measure.ts';

const KEYS_PER_USER_MAX = 1000;

const CONNECTIONS = 200;
const CREATING_AT_ONCE = 20;
const OTHERS_LISTS = 30;
const MEDIAN_MS_MAX = 250;
const RESIDENT_MB_MAX = 256;

test('one user with 200 connections does not hold up the lists of others', async () => {
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET } });
  const [alice, bob] = [await userOn(server), await userOn(server, 'bob')];
  for (let made = 0; made < KEYS_PER_USER_MAX; made += CREATING_AT_ONCE) {
    await Promise.all(Array.from({ length: CREATING_AT_ONCE }, () => alice.create()));
  }
  await bob.create();
  let over = false;
  const greedy = Array.from({ length: CONNECTIONS }, async () => {
    while (!over) {
      const { status, body } = await alice.call('list_api_keys');
      if (status === 200 ? body.nextCursor === undefined : ![429, 503].includes(status))
        throw new Error(`it was ${status}`);
    }
  });
  const tookMs: number[] = [];
  while (tookMs.length < OTHERS_LISTS) {
    tookMs.push(await msOf(async () => expect(await bob.ids()).toHaveLength(1)));
  }
  const residentMb = residentMbOf(server.pid);
  over = true;
  await Promise.all(greedy);
  expect(median(tookMs)).toBeLessThan(MEDIAN_MS_MAX);
  expect(residentMb).toBeLessThan(RESIDENT_MB_MAX);
}, 180_000);
