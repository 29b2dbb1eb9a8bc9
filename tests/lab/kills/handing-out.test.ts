// A few rounds of handing-out.ts.

import { expect, test } from 'bun:test';
import { USUAL_RUNTIME } from '../../support/server-process.ts';
import { handingOutRounds } from './handing-out.ts';

const ROUNDS = 6;

test(`${ROUNDS} kills while people decide and programs and clients fetch their keys: each decision is one key at most`, async () => {
  const { requests, unanswered, faults } = await handingOutRounds(ROUNDS, USUAL_RUNTIME);
  expect(faults).toEqual([]);
  expect(unanswered).toBeGreaterThan(ROUNDS);
  expect(requests).toBeGreaterThan(unanswered);
}, 180_000);
