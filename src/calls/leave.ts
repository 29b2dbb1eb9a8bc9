// The last moment before a success leaves. It was decided on a proof that its key is good, which may have become older
// than the revocation bound: the tool took long, the process was stopped, the machine slept. Then the key is verified
// again, at no charge. What is decided here leaves at once: whatever has to be waited for was waited for before.

import { logRefused, presentedKey } from '../guards/api-key.ts';
import type { KeyDomain } from '../keys/index.ts';
import { type Awaitable, err, isPromise, type Result } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { Call } from './call.ts';

export interface Leave {
  /** The result that may leave at once: the same, which is nearly always known now, or why it may not. */
  <T>(result: Result<T, Problem>, call: Call): Awaitable<Result<T, Problem>>;
  /** The same for successes that leave together: the problems of those that may not. */
  together(calls: readonly Call[]): Promise<ReadonlyMap<Call, Problem>>;
}

/** A store that responds slower than the bound is asked no more often than this. */
const TRIES = 2;

const TOO_SLOW: Problem = {
  code: 'store_unavailable',
  reason: 'the key store answers slower than the revocation bound',
};

export function createLeave({ feed, verifier: { confirm } }: Pick<KeyDomain, 'feed' | 'verifier'>, log: Log): Leave {
  const isStale = ({ freshAsOfMs }: Call) => !feed.isFresh(freshAsOfMs);

  /** All are good at the same moment, or refused. */
  async function refusals(calls: readonly Call[]): Promise<ReadonlyMap<Call, Problem>> {
    const refused = new Map<Call, Problem>();
    const refuse = (call: Call, problem: Problem) => {
      refused.set(call, problem);
      logRefused(log, problem, call);
    };
    const stale = () => calls.filter((call) => !refused.has(call) && isStale(call));
    for (let tries = 0; tries < TRIES && stale().length > 0; tries += 1) {
      const verifying = stale().map(async (call) => {
        const verified = await confirm(presentedKey(call.credentials) ?? '', call);
        if (verified.ok) call.freshAsOfMs = verified.freshAsOfMs;
        else refuse(call, verified.error);
      });
      await Promise.all(verifying);
    }
    for (const call of stale()) refuse(call, TOO_SLOW);
    return refused;
  }

  async function again<T>(result: Result<T, Problem>, call: Call): Promise<Result<T, Problem>> {
    const problem = (await refusals([call])).get(call);
    return problem === undefined ? result : err(problem);
  }

  const now = <T>(result: Result<T, Problem>, call: Call): Awaitable<Result<T, Problem>> =>
    isStale(call) ? again(result, call) : result;

  function leave<T>(result: Result<T, Problem>, call: Call): Awaitable<Result<T, Problem>> {
    if (!result.ok) return result;
    const turn = call.turn();
    return isPromise(turn) ? turn.then(() => now(result, call)) : now(result, call);
  }

  return Object.assign(leave, {
    async together(calls: readonly Call[]) {
      await calls[0]?.turn();
      return refusals(calls);
    },
  });
}
