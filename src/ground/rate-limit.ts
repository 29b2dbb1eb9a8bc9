// What a rate limit or quota allows, what is left of it, and how people write it. Pure.

import { memoize } from './cache.ts';
import { formatDuration, parseDuration } from './runtime.ts';

/** What a limit allows. Few objects are in use, so an object identifies a limit. */
export interface RateLimit {
  readonly requests: number;
  readonly windowS: number;
}

const limitFrom = memoize((text: string): RateLimit => {
  const [requests, windowS] = text.split('/').map(Number) as [number, number];
  return { requests, windowS };
});

/** One object for equal limits, however many keys have them. */
export const limitOf = (requests: number, windowS: number): RateLimit => limitFrom(`${requests}/${windowS}`);

/** What a limit is called in headers. */
export type LimitName = 'key' | 'quota' | 'user';

export interface RateLimitState {
  /** `key` unless given. */
  readonly name?: LimitName;
  readonly limit: RateLimit;
  readonly remaining: number;
  /** Whole seconds until the window ends, rounded up. */
  readonly resetS: number;
  /** Another limit that counts too. */
  readonly and?: RateLimitState;
}

/** `state` with the one that another guard added `before`, a user's last; it replaces one of the same name. */
export function beside(before: RateLimitState | undefined, state: RateLimitState): RateLimitState {
  const others = before?.name === state.name ? before?.and : before;
  if (others === undefined) return state;
  return state.name === 'user' ? { ...others, and: state } : { ...state, and: others };
}

/** The limit that refuses first: it has the least left. Of two that have the same, the one that ends later. */
export function scarcest({ and, ...first }: RateLimitState): RateLimitState {
  if (and === undefined) return first;
  const other = scarcest(and);
  const isOther = other.remaining === first.remaining ? other.resetS > first.resetS : other.remaining < first.remaining;
  return isOther ? other : first;
}

/** So many calls in each period of UTC. */
export interface Quota {
  readonly requests: number;
  readonly period: 'day' | 'month';
}

export const REQUESTS_MAX = 1_000_000_000;
export const WINDOW_S_MAX = 366 * 86_400;

/** What a user may give to a key; null: no bound. Operators have none. */
export interface LimitCeilings {
  readonly rateLimit: RateLimit | null;
  readonly quota: Quota | null;
}

export const NO_CEILINGS: LimitCeilings = { rateLimit: null, quota: null };

/** A limit as it is put in and shown. */
export interface WrittenLimit {
  readonly requests: number;
  readonly window: string;
}

/** Seconds; null: no window, or none that a key may have. */
export function windowSecondsOf(window: string): number | null {
  const ms = parseDuration(window);
  return ms === null || ms > WINDOW_S_MAX * 1000 ? null : ms / 1000;
}

export const writtenLimit = ({ requests, windowS }: RateLimit): WrittenLimit => ({
  requests,
  window: formatDuration(windowS * 1000),
});

export const limitInWords = ({ requests, windowS }: RateLimit): string =>
  `${requests} calls in ${formatDuration(windowS * 1000)}`;

/** `100/1m`; null for anything else. */
export function parseLimit(text: string): RateLimit | null {
  const [, count, window] = /^(\d{1,10})\/(.+)$/.exec(text) ?? [];
  const windowS = windowSecondsOf(window ?? '');
  return windowS !== null && isCount(Number(count)) ? { requests: Number(count), windowS } : null;
}

/** `5000/day`, `100000/month`; null for anything else. */
export function parseQuota(text: string): Quota | null {
  const [, count, period] = /^(\d{1,10})\/(day|month)$/.exec(text) ?? [];
  return isCount(Number(count)) ? { requests: Number(count), period: period as Quota['period'] } : null;
}

const isCount = (requests: number): boolean => requests >= 1 && requests <= REQUESTS_MAX;
