// kill -9 in the middle of what users do over every transport: nothing acknowledged is lost, and the file is whole.

import { expect, test } from 'bun:test';
import { crash } from '../lab/kills/crashes.ts';
import { everything } from '../support/everything.ts';

const ROUNDS = everything ? 20 : 5;
const USERS = 8;

test(`kill -9, ${ROUNDS} rounds: nothing acknowledged is lost, and the file is whole`, async () => {
  expect(await crash({ rounds: ROUNDS, users: USERS, seed: 2 })).toBeGreaterThan(USERS);
}, 180_000);
