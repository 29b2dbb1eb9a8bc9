// Pages through the events of anybody's key, or of an owner, for admins, with persons and addresses. Each look at what isn't
// the admin's own is logged.

import { LIMITS } from '../../ground/limits/index.ts';
import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import { type Actor, actorFields, createPersonBudget } from '../../keys/actor.ts';
import { HISTORY_READ, type HistoryPage, historyPage, type PastEvent } from '../../keys/history.ts';
import { isIdShaped } from '../../keys/record.ts';
import type { KeyEvent, KeyStore } from '../../keys/store.ts';
import type { Log } from '../../watch/log.ts';
import type { AdminStore } from './store.ts';

export interface TrailOptions {
  readonly store: KeyStore;
  readonly clock: Clock;
  readonly log: Log;
}

/** Whose events: of a key, or those of an owner that are about no key. */
export type Whose = { readonly keyId: string } | { readonly owner: string };

/** Creates the reader of events before a number, newest first. */
export function createTrail(adminStore: AdminStore, { store, clock, log }: TrailOptions) {
  const histories = createPersonBudget([LIMITS.histories], clock, log);

  /** Returns the events of a key, and whether all are of this owner's time; null: there is no such key. */
  async function eventsOfKey(keyId: string, before: number, owner: string) {
    const found = await store.eventsOfKey(keyId, null, before, HISTORY_READ);
    if (found.length > 0) return { found, isOwn: found.every((event) => event.owner === owner) };
    // Events are deleted in time; a key that has none left is still there.
    const [key] = await adminStore.find({ id: keyId });
    return key === undefined ? null : { found, isOwn: key.userId === owner };
  }

  return async (admin: Actor, whose: Whose, before: number): Promise<Result<HistoryPage, Problem>> => {
    if ('keyId' in whose && !isIdShaped(whose.keyId)) return err({ code: 'key_not_found' });
    const taken = histories.take(admin);
    if (!taken.ok) return taken;
    const read =
      'keyId' in whose
        ? await eventsOfKey(whose.keyId, before, admin.userId)
        : {
            found: await adminStore.eventsOfOwner(whose.owner, before, HISTORY_READ),
            isOwn: whose.owner === admin.userId,
          };
    if (read === null) return err({ code: 'key_not_found' });
    if (!read.isOwn) log.info('Trail read by an admin', { ...actorFields(admin), actor: admin.actor, ...whose });
    return ok(historyPage(read.found, shownToAdmin));
  };
}

const shownToAdmin = ({ atMs, kind, how, actor, address, fields, fingerprint, workload }: KeyEvent): PastEvent => ({
  atMs,
  kind,
  how,
  actor,
  address,
  fields,
  fingerprint,
  workload,
});
