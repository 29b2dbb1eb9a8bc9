// Defines rate limits and quotas and the state of one, and parses and formats them. Pure.

import { memoize } from './cache.ts';
import { formatDuration, parseDuration } from './runtime.ts';

/** What a limit allows. Equal limits of keys and owners are one object (`limitOf`), so that few exist. */
export interface RateLimit {
  readonly requests: number;
  readonly windowS: number;
}

const limitFrom = memoize((text: string): RateLimit => {
  const [requests, windowS] = text.split('/').map(Number) as [number, number];
  return { requests, windowS };
});

/** Returns one shared object for equal limits. */
export const limitOf = (requests: number, windowS: number): RateLimit => limitFrom(`${requests}/${windowS}`);

/** The names of limits in headers, in the order in which they are listed. */
const LIMIT_NAMES = ['key', 'quota', 'owner', 'owner-quota', 'user'] as const;

export type LimitName = (typeof LIMIT_NAMES)[number];

/** A limit that counts for a call, and what is left of it. */
export interface RateLimitState {
  readonly name: LimitName;
  readonly limit: RateLimit;
  readonly remaining: number;
  /** Whole seconds until the window ends, rounded up. */
  readonly resetS: number;
}

/** All limits that count for a call, each name once. */
export type RateLimitStates = readonly RateLimitState[];

const placeOf = ({ name }: RateLimitState): number => LIMIT_NAMES.indexOf(name);

/** Adds another guard's limits, which replace those of the same names, in order. */
export function withLimits(before: RateLimitStates, added: RateLimitStates): RateLimitStates {
  const others = before.filter(({ name }) => added.every((one) => one.name !== name));
  return [...others, ...added].sort((a, b) => placeOf(a) - placeOf(b));
}

/** A number of units per UTC day or month. */
export interface Quota {
  readonly requests: number;
  readonly period: 'day' | 'month';
}

export const REQUESTS_MAX = 1_000_000_000;
export const WINDOW_S_MAX = 366 * 86_400;
/** Shorter windows end before other processes hear of them, so each process counts them by itself. */
export const SHARED_WINDOW_S_MIN = 10;
/** How many keys, in any state, an owner has at most by default. Bounds the list, its response, and storage. */
export const KEYS_MAX_DEFAULT = 1000;
/** The most that an owner may be given. */
export const OWNER_KEYS_MAX = 10_000;

/** What a key or owner has of its own (null: the server's), or what the server has for all (null: none). */
export interface Limits {
  readonly rateLimit: RateLimit | null;
  readonly quota: Quota | null;
}

/** The most that operators may give a key: anything. */
export const NO_CEILINGS: Limits = { rateLimit: null, quota: null };

/** A limit in input and output. */
export interface WrittenLimit {
  readonly requests: number;
  readonly window: string;
}

/** Returns the seconds of a window; null if it isn't one, or is too long. */
export function windowSecondsOf(window: string): number | null {
  const ms = parseDuration(window);
  return ms === null || ms > WINDOW_S_MAX * 1000 ? null : ms / 1000;
}

export const writtenLimit = ({ requests, windowS }: RateLimit): WrittenLimit => ({
  requests,
  window: formatDuration(windowS * 1000),
});

/** Returns the limit that is written, in a window that was checked. */
export const readLimit = ({ requests, window }: WrittenLimit): RateLimit =>
  limitOf(requests, windowSecondsOf(window) ?? 0);

export const limitInWords = ({ requests, windowS }: RateLimit): string =>
  `${requests} calls in ${formatDuration(windowS * 1000)}`;

/** Parses `100/1m`; null for anything else. */
export function parseLimit(text: string): RateLimit | null {
  const [, count, window] = /^(\d{1,10})\/(.+)$/.exec(text) ?? [];
  const windowS = windowSecondsOf(window ?? '');
  return windowS !== null && isCount(Number(count)) ? limitOf(Number(count), windowS) : null;
}

/** Parses a limit like `parseLimit`, of which all processes count the calls together. */
export function parseSharedLimit(text: string): RateLimit | null {
  const limit = parseLimit(text);
  return limit !== null && limit.windowS >= SHARED_WINDOW_S_MIN ? limit : null;
}

export const COST_MAX = 1000;

/** Parses the cost of a call, 1 to COST_MAX units; null for anything else. */
export function parseCost(text: string): number | null {
  const units = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  return units >= 1 && units <= COST_MAX ? units : null;
}

/** Parses `5000/day` and `100000/month`; null for anything else. */
export function parseQuota(text: string): Quota | null {
  const [, count, period] = /^(\d{1,10})\/(day|month)$/.exec(text) ?? [];
  return isCount(Number(count)) ? { requests: Number(count), period: period as Quota['period'] } : null;
}

const isWithin = (value: number, max: number): boolean => Number.isInteger(value) && value >= 1 && value <= max;

const isCount = (requests: number): boolean => isWithin(requests, REQUESTS_MAX);

/** Returns whether a key may have this limit of its own. */
export const isLimit = ({ requests, windowS }: RateLimit): boolean =>
  isCount(requests) && isWithin(windowS, WINDOW_S_MAX);

/** Returns whether a key may have this quota of its own. */
export const isQuota = ({ requests, period }: Quota): boolean =>
  isCount(requests) && (period === 'day' || period === 'month');
