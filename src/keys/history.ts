// Pages through the events of one key for its owner, without revealing who other persons are or their addresses.

import { LIMITS } from '../ground/limits/index.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, createPersonBudget } from './actor.ts';
import { isIdShaped } from './record.ts';
import type { KeyEvent, KeyStore } from './store.ts';

const PAGE_EVENTS = 50;

export interface PastEvent extends Pick<KeyEvent, 'atMs' | 'kind' | 'how' | 'fields' | 'fingerprint' | 'workload'> {
  /**
   * The asking person's `sub`, or who else it was, in words; to an admin, whoever it was; null: nobody. For `connected` a
   * host, for `delegated` a key's id.
   */
  readonly actor: string | null;
  /** The address that it came from, if the asking person did it or is an admin; otherwise null. */
  readonly address: string | null;
}

export interface HistoryPage {
  readonly events: readonly PastEvent[];
  /** `before` of the next page; null: there is none. */
  readonly next: number | null;
}

export interface HistoryOptions {
  readonly store: KeyStore;
  readonly clock: Clock;
  readonly log: Log;
}

/** The events that a page is read from: one more shows that there is a next page. */
export const HISTORY_READ = PAGE_EVENTS + 1;

/** Returns a page of events that were read, as they are shown. */
export const historyPage = (found: readonly KeyEvent[], shown: (event: KeyEvent) => PastEvent): HistoryPage => ({
  events: found.slice(0, PAGE_EVENTS).map(shown),
  next: found.length > PAGE_EVENTS ? (found[PAGE_EVENTS - 1]?.seq ?? null) : null,
});

/** Creates the reader of a key's events before a number, newest first, even of a deleted key while they are kept. */
export function createHistory({ store, clock, log }: HistoryOptions) {
  const histories = createPersonBudget([LIMITS.histories], clock, log);
  return async (actor: Actor, keyId: string, before: number): Promise<Result<HistoryPage, Problem>> => {
    if (!isIdShaped(keyId)) return err({ code: 'key_not_found' });
    const taken = histories.take(actor);
    if (!taken.ok) return taken;
    const found = await store.eventsOfKey(keyId, actor.userId, before, HISTORY_READ);
    // Events are deleted in time; a key that has none left still belongs to its owner.
    const isOwn = found.length > 0 || (await store.findOwn(actor.userId, keyId)) !== null;
    if (!isOwn) return err({ code: 'key_not_found' });
    return ok(historyPage(found, (event) => shownTo(actor, event)));
  };
}

/** Kinds whose `actor` isn't a person. */
const WITHOUT_PERSON: readonly string[] = ['connected', 'delegated'];

function shownTo(actor: Actor, event: KeyEvent): PastEvent {
  const { atMs, kind, how, fields, fingerprint, workload } = event;
  const isTheirs = event.actor === actor.actor && (how === 'tool' || how === 'page');
  return {
    atMs,
    kind,
    how,
    fields,
    fingerprint,
    workload,
    actor: WITHOUT_PERSON.includes(kind) ? event.actor : personIn(event, actor),
    address: isTheirs ? event.address : null,
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
