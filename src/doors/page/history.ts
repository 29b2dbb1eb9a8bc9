// Pages through the events of a key. Its owner doesn't learn who other persons are, nor their addresses; an admin does, of
// anybody's key, and of an owner. Each look of an admin at what isn't his own is logged.

import { LIMITS } from '../../ground/limits/index.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import { type Actor, actorFields, createPersonBudget } from '../../keys/actor.ts';
import { isIdShaped, KEY_NOT_FOUND } from '../../keys/record.ts';
import type { StoreOf } from '../../store/database.ts';
import { createTrail, type KeyEvent } from '../../store/trail.ts';
import type { Log } from '../../watch/log.ts';

const PAGE_EVENTS = 50;
/** The events that a page is read from: one more shows that there is a next page. */
const READ = PAGE_EVENTS + 1;

export interface PastEvent
  extends Pick<KeyEvent, 'seq' | 'atMs' | 'kind' | 'how' | 'fields' | 'fingerprint' | 'workload'> {
  /**
   * The asking person's `sub`, or who else it was, in words; to an admin, whoever it was; null: nobody. For `connected` a
   * host, for `delegated` a key's id.
   */
  readonly actor: string | null;
  /** The address that it came from, if the asking person did it or is an admin; otherwise null. */
  readonly address: string | null;
}

interface HistoryPage {
  readonly events: readonly PastEvent[];
  /** `before` of the next page; null: there is none. */
  readonly next: number | null;
}

/** Whose events: of a key, or those of an owner that are about no key. */
type Whose = { readonly keyId: string } | { readonly owner: string };

export interface HistoryOptions {
  readonly storeOf: StoreOf;
  readonly clock: Clock;
  readonly log: Log;
}

/** Creates the reader of events before a number, newest first, even of a deleted key while they are kept. */
export function createHistory({ storeOf, clock, log }: HistoryOptions) {
  const trail = storeOf(createTrail);
  const histories = createPersonBudget([LIMITS.histories], clock, log);

  /** Returns the events of a key while it was this owner's (undefined: anybody's), and whose it was; null: no such key. */
  async function eventsOf(keyId: string, owner: string | undefined, beforeSeq: number, { userId }: Actor) {
    const found = await trail.newest({ keyId, owner, beforeSeq, limit: READ });
    if (found.length > 0) return { found, owners: found.map((event) => event.owner) };
    // Events are deleted in time; a key that has none left is still there.
    const holder = await trail.ownerOf(keyId, userId);
    return holder === null || holder !== (owner ?? holder) ? null : { found, owners: [holder] };
  }

  return async (
    actor: Actor,
    isAdmin: boolean,
    whose: Whose,
    before: number,
  ): Promise<Result<HistoryPage, Problem>> => {
    if ('owner' in whose && !isAdmin) return err({ code: 'admin_required' });
    if ('keyId' in whose && !isIdShaped(whose.keyId)) return err(KEY_NOT_FOUND);
    const taken = histories.take(actor);
    if (!taken.ok) return taken;
    const read =
      'keyId' in whose
        ? await eventsOf(whose.keyId, isAdmin ? undefined : actor.userId, before, actor)
        : { found: await trail.newestOfOwner(whose.owner, before, READ), owners: [whose.owner] };
    if (read === null) return err(KEY_NOT_FOUND);
    if (!isAdmin) return ok(pageOf(read.found.map((event) => shownToOwner(actor, event))));
    if (read.owners.some((owner) => owner !== actor.userId))
      log.info('Trail read by an admin', { ...actorFields(actor), actor: actor.actor, ...whose });
    return ok(pageOf(read.found));
  };
}

const pageOf = (found: readonly PastEvent[]): HistoryPage => ({
  events: found.slice(0, PAGE_EVENTS),
  next: found.length > PAGE_EVENTS ? (found[PAGE_EVENTS - 1]?.seq ?? null) : null,
});

/** Kinds whose `actor` isn't a person. */
const WITHOUT_PERSON: readonly string[] = ['connected', 'delegated'];

function shownToOwner(asking: Actor, event: KeyEvent): PastEvent {
  const { kind, how, actor, address } = event;
  const isTheirs = actor === asking.actor && (how === 'tool' || how === 'page');
  return {
    ...event,
    actor: WITHOUT_PERSON.includes(kind) ? actor : personIn(event, asking),
    address: isTheirs ? address : null,
  };
}

/** Returns who did it, as far as the asking person may know. */
function personIn({ how, actor: doer, byAdmin }: KeyEvent, { userId, actor }: Actor): string {
  switch (how) {
    case 'command':
    case 'import':
    case 'sql':
      return 'an admin';
    case 'possession':
    case 'use':
      return 'somebody who had the key';
    default:
      if (doer === actor) return actor;
      // Also an admin: others where the owner is one person.
      return byAdmin || userId === actor ? 'an admin' : 'a member';
  }
}
