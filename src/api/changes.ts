// POST /changes: a long poll that tells services which remembered answers to forget. A request waits, within bounds,
// until a poll of the change feed brings news. keys/marks.ts says what a mark is, keys/recent-changes.ts has the
// changes.

import { logsUses } from '../calls/api-key.ts';
import type { Recheck } from '../calls/proof.ts';
import { createLruCache } from '../ground/cache.ts';
import { LIMITS } from '../ground/limits/index.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Feed } from '../keys/feed.ts';
import type { Macs } from '../keys/marks.ts';
import type { Change } from '../keys/older-changes.ts';
import { CURSOR_CHARS_MAX, type RecentChanges } from '../keys/recent-changes.ts';
import { hasEnded } from '../keys/record.ts';
import type { LogRepeated } from '../watch/log.ts';
import type { Body } from '../web/body.ts';
import type { RequestContext } from '../web/context.ts';
import type { Route } from '../web/router.ts';
import type { HeldRequest, HeldRequests, Wake } from './held.ts';
import type { Leases } from './lease.ts';
import {
  INVALID,
  jsonResponse,
  refuseService,
  SERVICE_SCOPE,
  type ServiceCall,
  type ServiceOptions,
  serviceGuard,
} from './service.ts';
import { type CountUsed, type Used, usedIn } from './told.ts';

export interface ChangesRouteOptions extends ServiceOptions {
  readonly recheck: Recheck;
  readonly feed: Feed;
  readonly recent: RecentChanges;
  readonly macs: () => Promise<Macs>;
  readonly held: HeldRequests;
  readonly countUsed: CountUsed;
  readonly leases: Pick<Leases, 'restsOn'>;
  /** The feed's clock, which also counts while the machine sleeps. */
  readonly ageClock: Clock;
}

/** The longest and the default wait of a request, as a part of the bound. */
const WAIT_PART_MAX = 1 / 2;
const WAIT_PART = 1 / 4;

interface Question {
  /** Empty to start with the changes from now on. */
  readonly cursor: string;
  readonly arrivedAtMs: number;
  readonly untilMs: number;
}

/**
 * The decision on a request. One that must `wait` has seen the changes up to `seq`. If it is undecided the next poll
 * wakes it, else only a poll with news.
 */
type Outcome =
  | { readonly is: 'answer'; readonly body: object }
  | { readonly is: 'refused'; readonly problem: Problem }
  | { readonly is: 'wait'; readonly isUndecided: boolean; readonly seq: number };

const resultOf = (outcome: Exclude<Outcome, { is: 'wait' }>): Result<object, Problem> =>
  outcome.is === 'answer' ? ok(outcome.body) : err(outcome.problem);

const UNAVAILABLE: Problem = { code: 'store_unavailable', reason: 'not current' };
const NOT_CURRENT: Outcome = { is: 'refused', problem: UNAVAILABLE };

export function changesRoute(options: ChangesRouteOptions): Pick<Route, 'post' | 'refuse'> {
  const { guards, recheck, feed, recent, macs, held, countUsed, leases, ageClock } = options;
  const allow = serviceGuard(options, firstOfEach(logsUses(options.log)));
  const scopeGuard = guards.scopes(SERVICE_SCOPE);
  const judge = createJudge(options);

  async function post(context: RequestContext, body: Body): Promise<Response> {
    const arrivedAtMs = ageClock.monotonicMs();
    const allowed = await allow(context, body);
    if (!allowed.ok) return refuseService(context, allowed.error);
    const { caller, form } = allowed.value;
    const asked = fieldsOf(form, feed.boundMs);
    if (!asked.ok) return refuseService(context, asked.error);
    const { cursor, waitMs, used } = asked.value;
    await countUsed(used, caller);
    const answered = await listen(context, caller, { cursor, arrivedAtMs, untilMs: arrivedAtMs + waitMs });
    if (answered.ok) return jsonResponse(answered.value);
    return context.request.signal.aborted ? unread() : refuseService(context, answered.error);
  }

  /** Waits for the answer. Throws a StoreOutage if this process can't become current. */
  async function listen(
    context: RequestContext,
    caller: ServiceCall,
    asked: Question,
  ): Promise<Result<object, Problem>> {
    if (!feed.current()) await feed.ensureFresh();
    if (asked.cursor !== '') await recent.reach(asked.cursor, await macs());
    let outcome = await decide(caller, asked, undefined, null);
    if (outcome.is !== 'wait') return resultOf(outcome);
    const waiting = hold(context, caller, asked);
    if (recent.seq !== outcome.seq) waiting.wake('suspect'); // a change has just arrived
    try {
      while (outcome.is === 'wait') {
        waiting.isUndecided = outcome.isUndecided;
        waiting.seq = outcome.seq;
        const wake = await waiting.next();
        if (wake === 'gone') return err(UNAVAILABLE); // the client has hung up
        outcome = await decide(caller, asked, waiting, wake);
      }
      return resultOf(outcome);
    } finally {
      held.leave(waiting);
    }
  }

  /** Decides by what is known now, if the caller's key is still good. */
  async function decide(
    caller: ServiceCall,
    asked: Question,
    waiting: HeldRequest | undefined,
    wake: Wake | null,
  ): Promise<Outcome> {
    for (;;) {
      const codes = await macs();
      const problem = await problemOf(caller, waiting);
      if (problem !== null) return { is: 'refused', problem };
      if (waiting?.isSuspect !== true) return judge(asked, wake, codes); // else a change arrived meanwhile
    }
  }

  function hold({ request }: RequestContext, caller: ServiceCall, { untilMs }: Question): HeldRequest {
    const { keyId, subject: owner } = caller.auth;
    const facts = { keyId, owner, restsOn: leases.restsOn(caller), endsAtMs: caller.keyEndsAtMs, untilMs };
    const waiting = held.enter(facts);
    request.signal.addEventListener('abort', () => waiting.wake('gone'));
    return waiting;
  }

  /** Resolves with a problem if the caller may get no answer any more, else null. */
  async function problemOf(caller: ServiceCall, waiting: HeldRequest | undefined): Promise<Problem | null> {
    if (waiting?.isSuspect || hasEnded(caller.keyEndsAtMs, ageClock.nowMs())) {
      if (waiting !== undefined) waiting.isSuspect = false;
      const problem = await caller.revalidate();
      if (problem !== undefined) return problem;
      const may = await scopeGuard(caller);
      return may.ok ? null : may.error;
    }
    return (await recheck([caller])).get(caller) ?? null;
  }

  return { post, refuse: refuseService };
}

/** Creates the response to a client that has hung up. Its status, taken from nginx, is for the log. */
const unread = (): Response => new Response(null, { status: 499 });

/** Room for all services that may listen at once. An evicted one is logged once more. */
const LOGGED_MAX = LIMITS.listeners.total;

/** Creates a log of only the first request of each service, because services poll several times a second. */
function firstOfEach(logUse: LogRepeated): LogRepeated {
  const logged = createLruCache<true>({ entries: LOGGED_MAX });
  return (ids, service, fields) => {
    if (logged.get(service)) return;
    logged.set(service, true);
    logUse(ids, service, fields);
  };
}

/** Creates the function that decides on a request by what is known now. */
function createJudge({ feed, recent, ageClock }: Pick<ChangesRouteOptions, 'feed' | 'recent' | 'ageClock'>) {
  /** Returns the answer with the marks that changed; null if anything may have changed. */
  function answer(changed: readonly string[] | null, { arrivedAtMs }: Question, macs: Macs): Outcome {
    if (feed.lagMs() === null) return NOT_CURRENT;
    const body = {
      cursor: recent.currentCursor(macs),
      changed: changed ?? [],
      fresh_ms: Math.floor(feed.polledAtMs - arrivedAtMs),
      bound_ms: feed.boundMs,
      ...(changed === null && { all: true }),
    };
    return { is: 'answer', body };
  }

  const wait = (isUndecided: boolean): Outcome => ({ is: 'wait', isUndecided, seq: recent.seq });

  function judgeSeen(changes: readonly Change[], asked: Question, wake: Wake | null, macs: Macs): Outcome {
    const isOver = wake === 'full' || ageClock.monotonicMs() >= asked.untilMs;
    if (changes.length === 0 && !isOver) return wait(false);
    if (wake === 'failed' && !feed.isFresh(feed.polledAtMs)) return NOT_CURRENT;
    return answer(recent.marksOf(changes, macs), asked, macs);
  }

  return (asked: Question, wake: Wake | null, macs: Macs): Outcome => {
    if (asked.cursor === '') return answer([], asked, macs);
    const standing = recent.standingOf(asked.cursor, macs);
    if (standing.is === 'seen') return judgeSeen(standing.changes, asked, wake, macs);
    if (standing.is === 'unreadable' || standing.is === 'too_old') return answer(null, asked, macs);
    // The cursor is ahead of this process, or from a history that was lost. A poll that began after the request came
    // tells.
    if (feed.polledAtMs > asked.arrivedAtMs) return answer(null, asked, macs);
    return wake === 'full' || wake === 'failed' ? NOT_CURRENT : wait(true);
  };
}

interface Fields {
  readonly cursor: string;
  readonly waitMs: number;
  readonly used: Used;
}

const DIGITS = /^\d{1,6}$/;

/** Reads the fields of the form. Each may be there once; an empty one counts as missing. */
function fieldsOf(form: URLSearchParams, boundMs: number): Result<Fields, Problem> {
  const names = ['cursor', 'wait_ms', 'used'] as const;
  if (names.some((name) => form.getAll(name).length > 1)) return err(INVALID);
  const [cursor = '', wait = '', told = ''] = names.map((name) => form.get(name) ?? '');
  const waitMs = wait === '' ? boundMs * WAIT_PART : Number(wait);
  const isWait = wait === '' || (DIGITS.test(wait) && waitMs <= boundMs * WAIT_PART_MAX);
  if (cursor.length > CURSOR_CHARS_MAX || !isWait) return err(INVALID);
  const used = usedIn(told);
  return used.ok ? ok({ cursor, waitMs, used: used.value }) : used;
}
