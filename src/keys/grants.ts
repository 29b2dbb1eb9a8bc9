// Decides what a key may be given: within the configured ceilings, and what the person who asks may grant.

import type { InputIssue, Problem } from '../ground/problem.ts';
import {
  isLimit,
  isQuota,
  type Limits,
  type Quota,
  type RateLimit,
  REQUESTS_MAX,
  SHARED_WINDOW_S_MIN,
  WINDOW_S_MAX,
  writtenLimit,
} from '../ground/rate-limit.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { MS_PER_DAY } from '../ground/runtime.ts';
import { A_KEY_NAME, A_SCOPE, isKeyName, isScope } from '../ground/text.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, actorFields } from './actor.ts';
import type { Audience } from './audience.ts';
import type { ApiKeyRecord } from './record.ts';

export const SCOPES_MAX = 100;
/** The most characters of a key's scopes together, so that they take at most 4 KB in a list. */
export const SCOPES_CHARS_MAX = 2000;
/** The longest life of any key, a hundred years, which keeps expiresAt an exact integer. */
export const DAYS_MAX = 36_500;
/** Returns when a life of so many days ends that begins at `fromMs`. Parts of days are allowed; times are whole. */
export const endAfter = (days: number, fromMs: number): number => Math.round(fromMs + days * MS_PER_DAY);
export const expectedLife = (daysMax: number): string => `Expected a number above 0 and at most ${daysMax}`;
/** How long a rotated secret may go on beside the new one. */
export const OVERLAP_HOURS_MAX = 720;

export interface KeyCeilings {
  /** The scopes that exist; null: any. */
  readonly scopes: readonly string[] | null;
  /** The longest life of a key; null: keys need not expire. */
  readonly daysMax: number | null;
  /** The most that users may give a key; null: no bound. */
  readonly limits: Limits;
}

export interface KeyRequest {
  readonly scopes: readonly string[];
  /** Fractions allowed. */
  readonly expiresInDays?: number | undefined;
  readonly rateLimit?: RateLimit | undefined;
  readonly quota?: Quota | undefined;
  /** The one server that the key is bound to, as sent; undefined: none, unless `server` is given. */
  readonly resource?: string | undefined;
  /** The same by its stored name (audience.ts), instead of `resource`. */
  readonly server?: string | undefined;
  /** Scopes that need no grant: the key has them already, or an operator gives them. */
  readonly held?: readonly string[] | undefined;
}

/** The granted fields of the record, and the key's life. */
export interface Grant extends Pick<ApiKeyRecord, 'scopes' | 'rateLimit' | 'quota' | 'resource'> {
  /** Days until the key expires; null: it never does. */
  readonly expiresInDays: number | null;
}

/** The most scope issues in one error, since each names all scopes that exist. */
const ISSUES_MAX = 10;

export type GrantFor = ReturnType<typeof createGrantFor>;

/** Refuses what no key can have: a tool file may ask without a schema. */
export function checkFields(
  asked: Partial<Omit<KeyRequest, 'resource' | 'server' | 'held'>> & { name?: string },
): Result<void, Problem> {
  const { name, scopes = [], expiresInDays = DAYS_MAX, rateLimit, quota } = asked;
  const issues: InputIssue[] = [];
  if (name !== undefined && !isKeyName(name)) issues.push({ path: 'name', message: `Expected ${A_KEY_NAME}` });
  const wrong = scopes.findIndex((scope) => !isScope(scope));
  if (wrong !== -1) issues.push({ path: `scopes.${wrong}`, message: `Expected ${A_SCOPE}` });
  if (scopes.length > SCOPES_MAX || scopes.join('').length > SCOPES_CHARS_MAX) {
    const message = `Expected at most ${SCOPES_MAX} scopes of ${SCOPES_CHARS_MAX} characters together`;
    issues.push({ path: 'scopes', message });
  }
  if (!(expiresInDays > 0 && expiresInDays <= DAYS_MAX))
    issues.push({ path: 'expiresInDays', message: expectedLife(DAYS_MAX) });
  if (rateLimit !== undefined && !isLimit(rateLimit)) {
    const message = `Expected 1 to ${REQUESTS_MAX} requests in a window of 1 to ${WINDOW_S_MAX} seconds`;
    issues.push({ path: 'rateLimit', message });
  }
  if (quota !== undefined && !isQuota(quota)) {
    issues.push({ path: 'quota', message: `Expected 1 to ${REQUESTS_MAX} requests a day or month` });
  }
  return issues.length === 0 ? ok(undefined) : err({ code: 'invalid_input', issues });
}

/** Checks what the actor may give a key. A request above a ceiling is refused, never lowered. */
export const createGrantFor =
  (ceilings: KeyCeilings, audience: Audience, log: Log) =>
  (actor: Actor, request: KeyRequest): Result<Grant, Problem> => {
    const servers = audience.serversFor(actor.publicUrl);
    const sent = request.resource === undefined ? undefined : servers.nameOf(request.resource);
    const server = request.server ?? sent ?? null;
    const issues = issuesOf(ceilings, request);
    if (sent === null || (server !== null && !audience.has(server))) {
      issues.push({ path: 'resource', message: `Expected one of ${servers.urls.join(', ')}` });
    }
    if (issues.length > 0) return err({ code: 'invalid_input', issues });
    const { scopes, expiresInDays = ceilings.daysMax, rateLimit = null, quota = null } = request;
    const { grantable } = actor;
    const { held = [] } = request;
    if (grantable !== null && !scopes.every((scope) => held.includes(scope) || grantable.includes(scope))) {
      log.warn('Scope not granted', actorFields(actor));
      return err({ code: 'scope_not_granted', grantable });
    }
    return ok({ scopes, expiresInDays, rateLimit, quota, resource: server });
  };

/** Scopes that mean something to the server itself: an operator gives them whatever KEY_SCOPES says. */
export const OPERATORS_SCOPES = ['introspect', 'delegate'];

/** Returns which scopes don't exist (null: all do), but for those that need no grant. */
export function unknownScopes(
  existing: KeyCeilings['scopes'],
  scopes: readonly string[],
  held: readonly string[],
): InputIssue[] {
  const issues: InputIssue[] = [];
  for (const [index, scope] of scopes.entries()) {
    if (existing === null || existing.includes(scope) || held.includes(scope) || issues.length === ISSUES_MAX) continue;
    issues.push({ path: `scopes.${index}`, message: `Expected one of ${existing.join(', ')}` });
  }
  return issues;
}

/**
 * Returns what is above a ceiling. A limit is too high by its number or its rate, or if its window is so short that
 * each process would count on its own; a quota by its number, or if its period differs.
 */
function issuesOf({ scopes: existing, daysMax, limits }: KeyCeilings, request: KeyRequest): InputIssue[] {
  const { scopes, held = [], expiresInDays, rateLimit, quota } = request;
  const { rateLimit: most, quota: mostQuota } = limits;
  const issues = unknownScopes(existing, scopes, held);
  if (daysMax !== null && expiresInDays !== undefined && expiresInDays > daysMax) {
    issues.push({ path: 'expiresInDays', message: expectedLife(daysMax) });
  }
  if (most !== null && rateLimit !== undefined) {
    const windowMin = Math.min(SHARED_WINDOW_S_MIN, most.windowS);
    if (rateLimit.windowS < windowMin) {
      issues.push({ path: 'rateLimit.window', message: `Expected a window of at least ${windowMin}s` });
    }
    const isFaster = rateLimit.requests * most.windowS > most.requests * rateLimit.windowS;
    if (rateLimit.requests > most.requests || isFaster) {
      const { requests, window } = writtenLimit(most);
      issues.push({
        path: 'rateLimit',
        message: `Expected at most ${requests} requests, and no faster than ${requests} in ${window}`,
      });
    }
  }
  if (mostQuota !== null && quota !== undefined) {
    if (quota.period !== mostQuota.period || quota.requests > mostQuota.requests) {
      issues.push({ path: 'quota', message: `Expected at most ${mostQuota.requests} a ${mostQuota.period}` });
    }
  }
  return issues;
}
