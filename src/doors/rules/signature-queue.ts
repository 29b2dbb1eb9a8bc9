// Checks signatures one after the other, so that a flood of made-up tokens has one checked at a time. Sources, usually
// addresses, take turns; those within their budget of unknown keys come before those beyond it, which have a limited
// number of places.

import type { JWTVerifyGetKey } from 'jose';
import { compactVerify } from 'jose/jws/compact/verify';
import { createReservoir } from '../../ground/limits/reservoir.ts';
import { createQueues } from '../../ground/limits/semaphore.ts';
import { ASYMMETRIC } from '../../users/jwks.ts';
import { verifySigned } from '../../users/signature.ts';
import type { VerificationKeys } from '../../users/verification-keys.ts';

/** When so many beyond their budget wait, some of them are refused. */
const WAITING_MAX = 500;

interface Waiter {
  check(): Promise<void>;
  refuse(): void;
}

/** Creates the function that verifies a token's signature when its source has its turn. That throws an IssuerOutage. */
export function createVerifyInTurn() {
  const withinBudget = createQueues<Waiter>();
  const overBudget = createReservoir<Waiter>(WAITING_MAX);
  let isServing = false;

  function next(): Waiter | undefined {
    for (const [source, first] of withinBudget.turns()) {
      withinBudget.shift(source);
      return first;
    }
    return overBudget.take(1)[0];
  }

  async function serve(): Promise<void> {
    if (isServing) return;
    isServing = true;
    for (let waiter = next(); waiter !== undefined; waiter = next()) await waiter.check();
    isServing = false;
  }

  /** Resolves with what `verify` returns when its turn has come. Rejects with its error, or with NoPlace. */
  function inTurn<T>(source: string, isWithinBudget: boolean, verify: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const waiter: Waiter = { check: () => verify().then(resolve, reject), refuse: () => reject(new NoPlace()) };
      if (isWithinBudget) withinBudget.push(source, waiter);
      else overBudget.offer(waiter)?.refuse();
      void serve();
    });
  }

  return (token: string, keys: VerificationKeys, source: string, isWithinBudget: boolean) =>
    verifySigned(keys, token, (getKey) => inTurn(source, isWithinBudget, () => verifyBy(token, getKey)));
}

/** Too many wait for a check of their signature. */
export class NoPlace extends Error {}

const OPTIONS = { algorithms: [...ASYMMETRIC] };

/** Verifies a token by one key. Rejects with jose's error. */
export const verifyBy = (token: string, getKey: JWTVerifyGetKey): Promise<unknown> =>
  compactVerify(token, getKey, OPTIONS);
