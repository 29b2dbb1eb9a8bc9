// Decides whether a call is admitted: one pass over all limits of all its holders, all or nothing. Pure.

import type { Problem } from '../ground/problem.ts';
import type { RateLimitState, RateLimitStates } from '../ground/rate-limit.ts';
import { type Bound, type Holder, hasRoom, remainingOf, stateOf } from './holder.ts';

/** Returns why a call isn't admitted; null: it is. One that costs more than a limit never will be. */
export function refusalOf(holders: readonly Holder[], units: number, nowMs: number): Problem | null {
  if (haveRoom(holders, units)) return null;
  const full = holders.flatMap(({ bounds }) => bounds.filter((bound) => !hasRoom(bound, units)));
  const isOverQuota = full.some(isQuota);
  const waitedFor = full.filter((bound) => isQuota(bound) === isOverQuota);
  const isTooCostly = full.some(({ limit }) => units > limit.requests);
  const retryAfterS = Math.max(...waitedFor.map((bound) => stateOf(bound, nowMs).resetS));
  return {
    code: isOverQuota ? 'quota_exceeded' : 'rate_limited',
    retryAfterS: isTooCostly ? null : retryAfterS,
    limits: statesOf(holders, nowMs),
    ...(full.every(isOwners) && { of: 'owner' as const }),
    ...(waitedFor.every(isOwners) && { waitsFor: 'owner' as const }),
  };
}

/** Returns whether all limits have room. Loops, because closures would double the cost of each call's decision. */
function haveRoom(holders: readonly Holder[], units: number): boolean {
  for (const { bounds } of holders) for (const bound of bounds) if (!hasRoom(bound, units)) return false;
  return true;
}

const isQuota = ({ name }: Bound): boolean => name === 'quota' || name === 'owner-quota';

const isOwners = ({ name }: Bound): boolean => name === 'owner' || name === 'owner-quota';

export const statesOf = (holders: readonly Holder[], nowMs: number): RateLimitStates => {
  const states: RateLimitState[] = [];
  for (const { bounds } of holders) for (const bound of bounds) states.push(stateOf(bound, nowMs));
  return states;
};

/** Returns how many of the units fit in all limits. */
export const roomFor = (holders: readonly Holder[], units: number): number =>
  Math.min(units, ...holders.flatMap(({ bounds }) => bounds.map(remainingOf)));
