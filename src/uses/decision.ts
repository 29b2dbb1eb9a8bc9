// Decides whether a call is admitted: one pass over all limits of all its holders, all or nothing. Pure.

import type { Problem } from '../ground/problem.ts';
import type { RateLimitState, RateLimitStates } from '../ground/rate-limit.ts';
import { type Bound, type Holder, hasRoom, remainingOf, stateOf } from './holder.ts';

/** `full`: the limits with too little left for the call; `over_quota` if at least one is a quota. */
export type Decision =
  | { readonly is: 'admitted' }
  | { readonly is: 'over_limit' | 'over_quota'; readonly full: readonly Bound[] };

const ADMITTED: Decision = { is: 'admitted' };

export function decide(holders: readonly Holder[], units: number): Decision {
  if (haveRoom(holders, units)) return ADMITTED;
  const full = holders.flatMap(({ bounds }) => bounds.filter((bound) => !hasRoom(bound, units)));
  return { is: full.some(isQuota) ? 'over_quota' : 'over_limit', full };
}

/** Returns whether all limits have room. Loops, because closures would double the cost of each call's decision. */
function haveRoom(holders: readonly Holder[], units: number): boolean {
  for (const { bounds } of holders) for (const bound of bounds) if (!hasRoom(bound, units)) return false;
  return true;
}

const isQuota = ({ name }: Bound): boolean => name === 'quota' || name === 'owner-quota';

const isOwners = ({ name }: Bound): boolean => name === 'owner' || name === 'owner-quota';

/** Returns the problem of a call that wasn't admitted. A call that costs more than a limit never will be. */
export function refusalOf(
  { is, full }: Exclude<Decision, { is: 'admitted' }>,
  limits: RateLimitStates,
  units: number,
  nowMs: number,
): Problem {
  const code = is === 'over_quota' ? 'quota_exceeded' : 'rate_limited';
  const waitedFor = full.filter((bound) => isQuota(bound) === (is === 'over_quota'));
  const isTooCostly = full.some(({ limit }) => units > limit.requests);
  const retryAfterS = Math.max(...waitedFor.map((bound) => stateOf(bound, nowMs).resetS));
  return {
    code,
    retryAfterS: isTooCostly ? null : retryAfterS,
    limits,
    ...(full.every(isOwners) && { of: 'owner' as const }),
    ...(waitedFor.every(isOwners) && { waitsFor: 'owner' as const }),
  };
}

export const statesOf = (holders: readonly Holder[], nowMs: number): RateLimitStates => {
  const states: RateLimitState[] = [];
  for (const { bounds } of holders) for (const bound of bounds) states.push(stateOf(bound, nowMs));
  return states;
};

/** Returns how many of the units fit in all limits. */
export const roomFor = (holders: readonly Holder[], units: number): number =>
  Math.min(units, ...holders.flatMap(({ bounds }) => bounds.map(remainingOf)));
