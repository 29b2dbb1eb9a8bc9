// The last look before the success of a key-protected call leaves. It was decided on a proof that the key is good, which
// may have become older than the revocation bound: the tool took long, the process was stopped, the machine slept. Then
// the key is verified again, at no charge.

import { type KeyCall, logRefused, presentedKey } from '../guards/api-key.ts';
import type { KeyDomain } from '../keys/index.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';

/**
 * Undefined when the success may leave, which is nearly always known at once. Else resolves to the problem to return
 * with instead, or to undefined when the key is still good.
 */
export type Confirm = (call: KeyCall) => Promise<Problem | undefined> | undefined;

/** A store that responds slower than the bound is asked no more often than this. */
const TRIES = 2;

export function createConfirm(
  { feed, verifier: { confirm } }: Pick<KeyDomain, 'feed' | 'verifier'>,
  log: Log,
): Confirm {
  async function confirmNow(call: KeyCall): Promise<Problem | undefined> {
    const { credentials } = call;
    for (let tries = 0; tries < TRIES; tries += 1) {
      const verified = await confirm(presentedKey(credentials) ?? '', call);
      if (!verified.ok) return refused(verified.error, call);
      call.freshAsOfMs = verified.freshAsOfMs;
      if (feed.isFresh(verified.freshAsOfMs)) return undefined;
    }
    const reason = 'the key store answers slower than the revocation bound';
    return refused({ code: 'store_unavailable', reason }, call);
  }

  function refused(problem: Problem, call: KeyCall): Problem {
    logRefused(log, problem, call);
    return problem;
  }

  return (call) => (feed.isFresh(call.freshAsOfMs) ? undefined : confirmNow(call));
}
