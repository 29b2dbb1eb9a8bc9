// What operators do with anybody's keys, through the command `keys` and the admin tools: find, revoke and edit them.
// Work on many keys runs in batches, so that other statements do not wait for it.

import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { type Actor, actorFields, type Origin, type OriginOf } from '../../keys/actor.ts';
import { type EditShownWith, editChecked, type MadeEdit, showEdit } from '../../keys/changes.ts';
import { endAfter, type GrantFor } from '../../keys/grants.ts';
import { type OwnKey, ownKeys } from '../../keys/listing.ts';
import { isIdShaped, KEY_NOT_FOUND, type ListedKey } from '../../keys/record.ts';
import type { DerivedKeys, KeyChanges, KeyEdit, KeyStore, ListPlace } from '../../keys/store.ts';
import type { Place } from './cursor.ts';
import { FIRST_ROW, type OnRange } from './row-ranges.ts';
import type { AdminStore, KeyFilter, KeyName, PlacedKey } from './store.ts';
import type { Choice } from './troubled-keys.ts';

interface AllKeys {
  readonly store: AdminStore;
  readonly derived: DerivedKeys;
}

/** Returns the ids of the children that a filter names, if the rest of it fits them. Only keys can be found unused. */
async function namedChildren(derived: DerivedKeys, filter: KeyFilter): Promise<readonly string[]> {
  const { ids, owner = null, scope, createdFromMs = Number.NEGATIVE_INFINITY, unusedSinceMs } = filter;
  if (ids === undefined || unusedSinceMs !== undefined) return [];
  const found = await derived.findChildren({ id: ids }, owner);
  return found
    .filter(({ endedAtMs, createdAtMs }) => endedAtMs === null && createdAtMs >= createdFromMs)
    .filter(({ scopes }) => scope === undefined || scopes.includes(scope))
    .map(({ id }) => id);
}

/** Counts what `revokeAll` would revoke. */
export const countRevocable = async (
  { store, derived }: AllKeys,
  filter: KeyFilter,
  nowMs: number,
  onRange: OnRange,
): Promise<number> => (await namedChildren(derived, filter)).length + (await store.countActive(filter, nowMs, onRange));

/**
 * Revokes every active key that matches, in batches, and the children that the filter names: those of a key end with it.
 * Reports each batch, with the running total.
 */
export async function revokeAll(
  { store, derived }: AllKeys,
  filter: KeyFilter,
  nowMs: number,
  origin: Origin,
  onBatch: (ids: readonly string[], revoked: number) => unknown,
): Promise<number> {
  let revoked = 0;
  for (let after = FIRST_ROW; ; ) {
    const batch = await store.revokeNext(filter, nowMs, after, origin);
    if (batch === null) break;
    revoked += batch.ids.length;
    after = batch.lastRow;
    await onBatch(batch.ids, revoked);
  }
  const children = await namedChildren(derived, filter);
  if (children.length === 0) return revoked;
  const ended = (await derived.endChildren({ id: children }, null, nowMs, origin)).map(({ id }) => id);
  revoked += ended.length;
  if (ended.length > 0) await onBatch(ended, revoked);
  return revoked;
}

/** An edit as an operator requests it. `expiresInDays` counts from now; null: the key never expires. */
interface KeyUpdate extends Omit<KeyEdit, 'expiresAtMs'> {
  readonly expiresInDays?: number | null | undefined;
}

/** Changes the given fields of anybody's key. Returns null if there is no such key. */
export async function updateKey(
  keys: KeyChanges,
  store: AdminStore,
  id: string,
  update: KeyUpdate,
  origin: Origin,
): Promise<MadeEdit | null> {
  const changed = await keys.edit(null, id, await editOf(store, update), origin);
  const [key] = await store.find({ id });
  return key === undefined ? null : { key, changed };
}

async function editOf(store: AdminStore, { expiresInDays: days, ...edit }: KeyUpdate): Promise<KeyEdit> {
  const expiresAtMs = typeof days === 'number' ? endAfter(days, await store.nowMs()) : days;
  return { ...edit, expiresAtMs };
}

/** Returns whether a key that ends at `nowEndsAtMs` would live longer; null means for ever. */
const isLonger = (endsAtMs: number | null, nowEndsAtMs: number | null): boolean =>
  nowEndsAtMs !== null && (endsAtMs === null || endsAtMs > nowEndsAtMs);

export type AdminKeys = ReturnType<typeof createAdminKeys>;

const PAGE_KEYS = 100;
/** The most keys with one fingerprint that are shown. */
const NAMED_MAX = 10;

export interface NamedKey extends OwnKey {
  /** The child whose id or fingerprint was asked for; null: it was the key's own. */
  readonly childId: string | null;
}

export interface AdminKeysOptions extends EditShownWith {
  readonly store: KeyStore;
  readonly derived: DerivedKeys;
  readonly originOf: OriginOf;
  readonly grantFor: GrantFor;
}

/** Creates what admins may do through tools. It creates no keys. */
export function createAdminKeys(store: AdminStore, options: AdminKeysOptions) {
  const { derived, originOf, grantFor, feed, clock, log } = options;
  const adminOrigin = (actor: Actor): Origin => ({ ...originOf('tool', actor, actor.actor), byAdmin: true });
  return {
    /**
     * Lists keys of all owners or of one, newest first, inserted before row `before`. `next` is the `before` of the
     * next page; null: there is none.
     */
    async page(owner: string | undefined, before: number) {
      const nowMs = clock.nowMs();
      const found = await store.page({ owner }, nowMs, before, PAGE_KEYS + 1); // one more shows if a page follows
      const page = found.slice(0, PAGE_KEYS);
      const keys = await ownKeys(page, options, nowMs);
      return { keys, next: found.length > PAGE_KEYS ? (page.at(-1)?.row ?? null) : null };
    },

    /** Returns the keys with this id or fingerprint; of a child's, its parent with the child's id. */
    async named(name: KeyName): Promise<readonly NamedKey[]> {
      if ('id' in name && !isIdShaped(name.id)) return [];
      const [found, children] = await Promise.all([store.find(name), derived.findChildren(name, null)]);
      const named: { readonly key: PlacedKey; readonly childId: string | null }[] = [];
      for (const key of found) named.push({ key, childId: null });
      for (const { id, parentId } of children) {
        for (const key of await store.find({ id: parentId })) named.push({ key, childId: id });
      }
      const shown = await ownKeys(
        named.slice(0, NAMED_MAX).map(({ key }) => key),
        options,
        clock.nowMs(),
      );
      return shown.map((key, at) => ({ ...key, childId: named[at]?.childId ?? null }));
    },

    /** Lists the living children of anybody's key after a position. */
    children: async (parentId: string, after: ListPlace | null) =>
      isIdShaped(parentId) ? derived.listChildren(parentId, null, clock.nowMs(), after) : [],

    /** Looks for keys that may be trouble, of one owner or of all, after a position. */
    async look(choice: Choice, owner: string | undefined, after: Place | null) {
      const nowMs = clock.nowMs();
      const { keys, ...how } = await store.look(choice, owner, nowMs, after);
      return { keys: await ownKeys(keys, options, nowMs), ...how };
    },

    async revoke(actor: Actor, which: Pick<KeyFilter, 'owner' | 'ids'>): Promise<number> {
      const logged = (keyIds: readonly string[]) =>
        log.info('API keys revoked by an admin', { ...actorFields(actor), owner: which.owner, keyIds });
      const revoked = await revokeAll({ store, derived }, which, clock.nowMs(), adminOrigin(actor), logged);
      await feed.refresh();
      return revoked;
    },

    /**
     * Changes a key and returns its new state; a revoked key stays revoked. Added scopes and a longer life stay within
     * the ceilings and what the admin's token may grant. Limits and quotas have no ceiling here.
     */
    async update(actor: Actor, keyId: string, update: KeyUpdate): Promise<Result<OwnKey, Problem>> {
      if (!isIdShaped(keyId)) return err(KEY_NOT_FOUND); // it may be a key
      const { scopes = [], expiresInDays: days } = update;
      const edit = await editOf(store, update);
      const check = ({ scopes: held, expiresAtMs: endsAtMs }: ListedKey) => {
        const lives = edit.expiresAtMs !== undefined && isLonger(edit.expiresAtMs, endsAtMs);
        return grantFor(actor, { scopes, held, ...(lives && { expiresInDays: days ?? Number.POSITIVE_INFINITY }) });
      };
      const updated = await editChecked(options.store, null, keyId, edit, adminOrigin(actor), check);
      return updated.ok ? ok(await showEdit(actor, updated.value, options)) : updated;
    },
  };
}
