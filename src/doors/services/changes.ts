// POST /changes: tells services which remembered answers to forget. It answers at once if this process is current and
// has seen all that the cursor stands for, else after a poll. marks.ts says what a mark is, recent-changes.ts
// has the changes.

import { type LogUse, logsUses } from '../../calls/api-key.ts';
import { createLruCache } from '../../ground/cache.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import { err, ok, StoreOutage } from '../../ground/result.ts';
import { createBudget } from '../../keys/actor.ts';
import type { Feed } from '../../keys/feed.ts';
import { countedKeyId } from '../../keys/verify.ts';
import { json } from '../../web/headers.ts';
import type { BodyHandler } from '../../web/router.ts';
import type { Macs } from './marks.ts';
import { CURSOR_CHARS_MAX, type RecentChanges } from './recent-changes.ts';
import { refuseService } from './refuse.ts';
import { type Reported, usedIn } from './reported-uses.ts';
import { INVALID, refuseCaller, type ServicesOptions, serviceHandler } from './service.ts';

export function changesRoute(
  recent: RecentChanges,
  macsNow: () => Promise<Macs>,
  reported: Reported,
  options: ServicesOptions,
): BodyHandler {
  const { recheck, feed, ageClock, log } = options;
  const logUse = firstOfEach(logsUses(log));
  const budget = createBudget('changes', [LIMITS.askingForChanges], ageClock, log);
  const answerTo = createAnswer(feed, recent, macsNow);

  return serviceHandler(options, { logUse }, async (caller, form, arrivedAtMs) => {
    const keyId = countedKeyId(caller.auth);
    const taken = budget.take(keyId, { requestId: caller.requestId, keyId, userId: caller.auth.subject });
    if (!taken.ok) return refuseCaller(taken.error);
    const asked = fieldsOf(form);
    if (!asked.ok) return refuseService(asked.error);
    const { cursor, used } = asked.value;
    await reported.count(used, caller);
    const answer = await answerTo(cursor, arrivedAtMs);
    const ended = await recheck.one(caller);
    return ended === undefined ? json(200, answer) : refuseCaller(ended);
  });
}

/**
 * Creates the function that resolves with what has changed since a cursor. It rejects with a StoreOutage if this process
 * can't become current. An empty cursor begins now.
 */
function createAnswer(feed: Feed, recent: RecentChanges, macsNow: () => Promise<Macs>) {
  /** Reads what a cursor needs. Resolves with the MACs of the database as it is now. */
  async function macsFor(cursor: string): Promise<Macs> {
    const macs = await macsNow();
    await recent.readBackTo(cursor, macs);
    return macs;
  }

  return async (cursor: string, arrivedAtMs: number): Promise<object> => {
    const isCurrent = feed.isCurrentForUse();
    if (!isCurrent) await feed.pollNow();
    let macs = await macsFor(cursor);
    if (isCurrent && recent.stateOf(cursor, macs).is === 'unknown') {
      await feed.pollNow(); // it tells whether this process was behind, or the cursor is of a database that was lost
      macs = await macsFor(cursor);
    }
    if (feed.lagMs() === null) throw new StoreOutage('the change feed was lost meanwhile');
    const changed = cursor === '' ? [] : recent.marksSince(cursor, macs);
    return {
      cursor: recent.currentCursor(macs),
      changed: changed ?? [],
      fresh_ms: Math.floor(feed.polledAtMs - arrivedAtMs),
      bound_ms: feed.boundMs,
      ...(changed === null && { all: true }),
    };
  };
}

/** The last services whose first request was logged. */
const LOGGED_MAX = 1000;

/** Creates a log of only the first request of each service, because services poll several times a second. */
function firstOfEach(logUse: LogUse): LogUse {
  const logged = createLruCache<string>({ entries: LOGGED_MAX });
  return (ids, name, owner, key) => {
    if (logged.get(name) === owner) return;
    logged.set(name, owner);
    logUse(ids, name, owner, key);
  };
}

/** Reads the fields of the form. Each may be there once; an empty one counts as missing. `wait_ms` has no effect. */
function fieldsOf(form: URLSearchParams) {
  if (['cursor', 'wait_ms', 'used'].some((name) => form.getAll(name).length > 1)) return err(INVALID);
  const cursor = form.get('cursor') ?? '';
  if (cursor.length > CURSOR_CHARS_MAX) return err(INVALID);
  const used = usedIn(form.get('used') ?? '');
  return used.ok ? ok({ cursor, used: used.value }) : used;
}
