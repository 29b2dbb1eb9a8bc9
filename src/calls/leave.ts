// The last check before a success leaves. The proof of its key may have become older than the revocation bound: the
// tool took long, the process was stopped, the machine slept. Then the key is verified again, at no charge. A result
// that passes may leave at once: it has waited for its turn already.

import { logRefused, presentedKey } from '../guards/api-key.ts';
import type { KeyDomain } from '../keys/index.ts';
import { type Awaitable, err, isPromise, type Result } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { Call } from './call.ts';

export interface Leave {
  /** The same result if it may leave at once, nearly always without waiting; else a problem. */
  <T>(result: Result<T, Problem>, call: Call): Awaitable<Result<T, Problem>>;
  /** For successes that leave together: the problems of those that may not. */
  together(calls: readonly Call[]): Promise<ReadonlyMap<Call, Problem>>;
}

/** Then the store is slower than the bound, and is not asked again. */
const TRIES = 2;

const TOO_SLOW: Problem = {
  code: 'store_unavailable',
  reason: 'the key store answers slower than the revocation bound',
};

export function createLeave({ feed, verifier: { confirm } }: Pick<KeyDomain, 'feed' | 'verifier'>, log: Log): Leave {
  const isStale = ({ freshAsOfMs }: Call) => !feed.isFresh(freshAsOfMs);

  /** At its end all calls not refused are fresh at the same moment. */
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
