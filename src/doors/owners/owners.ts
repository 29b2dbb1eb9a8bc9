// What operators do with owners, through the commands and the admin tools: set limits and a quota for all keys together,
// the number of keys, metadata, a block; list and remove owners.

import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { type Actor, actorFields, type Origin, type OriginOf } from '../../keys/actor.ts';
import type { Feed } from '../../keys/feed.ts';
import { type PlansOptions, type ShownOwner, type ShownPlans, shownOwners } from '../../keys/plans.ts';
import type { Log } from '../../watch/log.ts';
import { DELETED_AT_ONCE, type OwnerEdit, type OwnerStore } from './store.ts';

/** Removes an owner and all keys. Calls `onKeys` with how many were deleted so far. */
export async function removeOwner(
  store: OwnerStore,
  owner: string,
  origin: Origin,
  onKeys: (deleted: number) => unknown,
): Promise<void> {
  await store.deleteCodes(owner); // first: one that is redeemed meanwhile would make a key again
  for (let deleted = 0; ; ) {
    const count = await store.deleteKeys(owner, origin);
    deleted += count;
    onKeys(deleted);
    if (count < DELETED_AT_ONCE) break;
  }
  await store.leave(owner, origin);
}

export interface OwnerUpdate extends OwnerEdit {
  readonly blocked?: boolean | undefined;
}

const isGiven = (update: OwnerUpdate): boolean => Object.values(update).some((given) => given !== undefined);

/** Sets the given fields. Returns whether anything changed. */
export async function updateOwner(
  store: OwnerStore,
  owner: string,
  { blocked, ...edit }: OwnerUpdate,
  origin: Origin,
): Promise<boolean> {
  const isSet = isGiven(edit) && (await store.set(owner, edit, origin));
  if (blocked === undefined) return isSet;
  const isToggled = await (blocked ? store.block : store.unblock)(owner, origin);
  return isSet || isToggled;
}

export type Owners = ReturnType<typeof createOwners>;

export interface OwnersOptions extends PlansOptions {
  readonly originOf: OriginOf;
  /** Its `refresh` lets this process see a change before the response. */
  readonly feed: Feed;
  readonly log: Log;
}

export interface OwnersPage {
  readonly owners: readonly ShownOwner[];
  /** The name after which the next page begins; null: there is none. */
  readonly next: string | null;
}

/** Returns the owners after a name, with what is in force and what was used. */
export async function pageOfOwners(ownerStore: OwnerStore, plans: ShownPlans, after: string): Promise<OwnersPage> {
  const { owners, next } = await ownerStore.ownersAfter(after);
  return { owners: await shownOwners(owners, plans), next };
}

/** Returns one owner likewise, by the exact name, even an unknown one. */
export async function ownerNamed(plans: PlansOptions, owner: string): Promise<ShownOwner> {
  const stored = await plans.planStore.findOwner(owner);
  const [shown] = await shownOwners(stored === null ? [] : [stored], plans);
  if (shown === undefined) throw new Error('an owner was asked for, and none was returned');
  return shown;
}

/** Creates what admins do with owners through tools. */
export function createOwners(ownerStore: OwnerStore, options: OwnersOptions) {
  const { originOf, feed, log } = options;
  return {
    /** Sets the given fields, and returns the owner's new state. Nobody blocks the owner that he is himself. */
    async update(actor: Actor, owner: string, update: OwnerUpdate): Promise<Result<ShownOwner, Problem>> {
      if (update.blocked && owner === actor.userId) return err({ code: 'own_owner' });
      const changed = await updateOwner(ownerStore, owner, update, originOf('tool', actor, actor.actor));
      if (isGiven(update)) await feed.refresh(); // even if nothing changed: another process may have done it, or an earlier try
      if (changed) log.info('Owner updated', { ...actorFields(actor), owner });
      return ok(await ownerNamed(options, owner));
    },

    page: (after: string) => pageOfOwners(ownerStore, options, after),
  };
}
