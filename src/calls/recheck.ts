// The last check before a success leaves. The proof of its key may have become older than the revocation bound: the
// tool took long, the process was stopped, the machine slept. Then the key is verified again, at no charge.

import { outageIn, StoreOutage } from '../ground/outage.ts';
import type { Problem } from '../ground/problem.ts';
import type { KeyDomain } from '../keys/index.ts';
import type { Log } from '../watch/log.ts';
import { outageProblem } from '../watch/outage.ts';
import { logRefused, presentedKey } from './api-key.ts';
import type { Call } from './call.ts';

export interface Recheck {
  /** For successes that leave together: the problems of those that may not. */
  (calls: readonly Call[]): Promise<ReadonlyMap<Call, Problem>>;
  /** False once the proof of its key is too old. */
  isFresh(call: Call): boolean;
}

/** Then the store is slower than the bound, and is not asked again. */
const TRIES = 2;

const TOO_SLOW = new StoreOutage('the key store answers slower than the revocation bound');

export function createRecheck({ feed, verifier }: Pick<KeyDomain, 'feed' | 'verifier'>, log: Log): Recheck {
  const isFresh = ({ verifiedAtMs }: Call): boolean => feed.isFresh(verifiedAtMs);

  /** At its end all calls not refused are fresh at the same moment. */
  async function recheck(calls: readonly Call[]): Promise<ReadonlyMap<Call, Problem>> {
    const refused = new Map<Call, Problem>();
    const away = (call: Call, outage: StoreOutage) => void refused.set(call, outageProblem(outage, log, call));
    const stale = () => calls.filter((call) => !refused.has(call) && !isFresh(call));
    for (let tries = 0; tries < TRIES && stale().length > 0; tries += 1) {
      const verifying = stale().map(async (call) => {
        try {
          const verified = await verifier.confirm(presentedKey(call.credentials) ?? '', call);
          if (verified.ok) call.verifiedAtMs = verified.verifiedAtMs;
          else {
            refused.set(call, verified.error);
            logRefused(log, verified.error, call);
          }
        } catch (error) {
          away(call, outageIn(error)); // the others of a batch may be good
        }
      });
      await Promise.all(verifying);
    }
    for (const call of stale()) away(call, TOO_SLOW);
    return refused;
  }

  return Object.assign(recheck, { isFresh });
}
