// Revalidates a call's credential if its proof is stale, before anything leaves under it: a result, a failure in the
// tool's own words, progress. Guards say how to revalidate it.

import type { Problem } from '../ground/problem.ts';
import { outageIn, StoreOutage } from '../ground/result.ts';
import type { Feed } from '../keys/feed.ts';
import type { Log } from '../watch/log.ts';
import { outageProblem } from '../watch/outage.ts';
import type { Call, CallProof, Progress } from './call.ts';

/** How often a credential is revalidated. If the proof is still stale, the store is slower than the bound. */
const TRIES = 2;

const TOO_SLOW = new StoreOutage('the key store answers slower than the revocation bound');

/** Revalidates credentials whose proof is older than the revocation bound, as after a long call, a stop or a sleep. */
export type Recheck = ReturnType<typeof createRecheck>;

export function createRecheck(feed: Feed, log: Log) {
  const isFresh = ({ atMs }: CallProof): boolean => feed.isFresh(atMs);

  /**
   * Checks calls whose results are sent together, until all that aren't refused are fresh at the same moment. Resolves with a
   * problem for each call that must send nothing.
   */
  async function recheck(calls: readonly Call[]): Promise<ReadonlyMap<Call, Problem>> {
    const refused = new Map<Call, Problem>();
    const refuse = (call: Call, outage: StoreOutage) => void refused.set(call, outageProblem(outage, log, call.caller));
    const stale = () => calls.filter((call) => !refused.has(call) && !isFresh(call.proof));
    async function revalidate(call: Call): Promise<void> {
      try {
        const problem = await call.proof.revalidate(call);
        if (problem !== undefined) refused.set(call, problem);
      } catch (error) {
        refuse(call, outageIn(error)); // the others of a batch may be good
      }
    }
    for (let tries = 0; tries < TRIES; tries += 1) await Promise.all(stale().map(revalidate));
    for (const call of stale()) refuse(call, TOO_SLOW);
    return refused;
  }

  return Object.assign(recheck, {
    isFresh,
    /** Checks one call. Resolves with the problem for which it must send nothing. */
    one: async (call: Call): Promise<Problem | undefined> => (await recheck([call])).get(call),
  });
}

type Report = Parameters<Progress>;

/** Sends a call's progress while its credential is good, and none after it has ended. Outages drop reports. */
export function provedProgress(recheck: Recheck, call: Call, send: Progress): Progress {
  let waiting: Report | undefined; // the latest, while the credential is revalidated
  let hasEnded = false;

  async function check(): Promise<void> {
    try {
      const problem = await recheck.one(call);
      const report = waiting;
      waiting = undefined;
      hasEnded = problem !== undefined && problem.code !== 'store_unavailable';
      if (problem === undefined && report !== undefined) send(...report);
    } catch {
      hasEnded = true; // a bug, which the check before the result meets again and logs
    }
  }

  return (...report) => {
    if (hasEnded) return;
    const isChecking = waiting !== undefined;
    if (!isChecking && recheck.isFresh(call.proof)) return send(...report);
    waiting = report;
    if (!isChecking) void check();
  };
}
