// What one person may create and rotate over a day, so that the trail, which is kept for 400 days, stays small.

import { expect, test } from 'bun:test';
import { LIMITS } from '../../src/ground/limits/index.ts';
import { createPersonBudget } from '../../src/keys/actor.ts';
import { createLog } from '../../src/start/package/index.ts';
import { testClock } from '../support/clock.ts';
import { actorFor } from '../support/test-app.ts';

const { creations, creationsOfDay } = LIMITS;
const DAY_S = 86_400;

test('at 20 a second all day, a person gets 10,000, then one every ten seconds; another has his own', () => {
  const clock = testClock();
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const budget = createPersonBudget([creations, creationsOfDay], clock, log);
  const alice = actorFor('alice');
  let taken = 0;
  for (let second = 0; second < DAY_S; second += 1) {
    for (let n = 0; n < creations.perS && budget.take(alice).ok; n += 1) taken += 1;
    clock.advance(1000);
  }
  expect(taken).toBeWithin(creationsOfDay.burst, creationsOfDay.burst + DAY_S * creationsOfDay.perS + 1);
  budget.take(alice); // what the last seconds may have brought back
  expect(budget.take(alice)).toMatchObject({
    ok: false,
    error: { code: 'rate_limited', retryAfterS: expect.any(Number) },
  });
  expect(budget.take(actorFor('bob')).ok).toBe(true);
});

test('what the day refuses is not taken from the second, and the other way round', () => {
  const clock = testClock();
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const budget = createPersonBudget(
    [
      { burst: 2, perS: 1 },
      { burst: 3, perS: 0.1 },
    ],
    clock,
    log,
  );
  const alice = actorFor('alice');
  const take = (count: number) => Array.from({ length: count }, () => budget.take(alice).ok);
  expect(take(5)).toEqual([true, true, false, false, false]);
  clock.advance(1000);
  expect(take(2)).toEqual([true, false]); // the third of the day: refusals by the second took none of it
  clock.advance(9000);
  expect(take(2)).toEqual([true, false]); // one came back to the day
});
