// A few rounds of crashes.ts; kill.test.ts has more of them on the operations that must be durable.

import { expect, test } from 'bun:test';
import { crash } from './crashes.ts';

const ROUNDS = 5;
const USERS = 16;

test(`${ROUNDS} crashes under all operations of ${USERS} clients: nothing acknowledged is lost, nothing is half done`, async () => {
  expect(await crash({ rounds: ROUNDS, users: USERS, seed: 1 })).toBeGreaterThan(USERS);
}, 180_000);
