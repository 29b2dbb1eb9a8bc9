// 200 rounds of crashes.ts.

import { expect, test } from 'bun:test';
import { crash } from '../kills/crashes.ts';

const ROUNDS = 200;
const USERS = 16;

test(`${ROUNDS} crashes under all operations of ${USERS} clients: nothing acknowledged is lost, nothing is half done`, async () => {
  const answered = await crash({ rounds: ROUNDS, users: USERS, seed: 2 });
  console.log(`${answered} operations acknowledged, none lost`);
  expect(answered).toBeGreaterThan(ROUNDS * USERS);
}, 1_800_000);
