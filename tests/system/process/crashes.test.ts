// A few rounds of crashes.ts; kill.test.ts has more of them on the operations that must be durable.

import { expect, test } from 'bun:test';
import { crash } from './crashes.ts';

const ROUNDS = 5;
const PEOPLE = 16;

test(`${ROUNDS} crashes under all operations of ${PEOPLE} clients: nothing acknowledged is lost, nothing is half done`, async () => {
  expect(await crash({ rounds: ROUNDS, people: PEOPLE, seed: 1 })).toBeGreaterThan(PEOPLE);
}, 60_000);
