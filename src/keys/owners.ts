// What operators set for an owner, through the commands and the admin tools (limits and a quota for all keys together,
// the number of keys, metadata, a block), and what the owner sees of it.

import { dayAt, monthOf } from '../ground/limits/rates.ts';
import type { Metadata } from '../ground/metadata.ts';
import type { Quota, RateLimit } from '../ground/rate-limit.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Uses } from '../uses/shown-uses.ts';
import type { Usage } from '../uses/usage.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, actorFields, type Origin, type OriginOf } from './actor.ts';
import type { OwnerSettings } from './record.ts';

/** An owner as stored. */
export interface StoredOwner {
  readonly owner: string;
  /** What an operator has set for the owner; null: nothing. */
  readonly settings: OwnerSettings | null;
  readonly blocked: boolean;
  /** How many keys there are, in any state. */
  readonly keys: number;
  /** Units counted for all keys together, today and in this month (UTC). */
  readonly units: { readonly day: number; readonly month: number };
}

/** Fields that are given are set; null: back to the server's. */
export type OwnerEdit = { readonly [F in keyof OwnerSettings]?: OwnerSettings[F] | undefined };

/** Every function throws a StoreOutage when the database is out of reach. Writes are idempotent, as in KeyStore. */
export interface OwnerStore {
  /** Returns owners by exact name, even unknown ones. `areSet`: only those with settings. */
  find(owners: readonly string[], nowMs: number, areSet?: boolean): Promise<readonly StoredOwner[]>;
  /** Returns the next names, in the database's order, of owners that have keys or settings or are blocked. */
  namesAfter(owner: string, limit: number): Promise<readonly string[]>;
  /** Returns the ids of all keys of an owner. */
  keyIdsOf(owner: string): Promise<readonly string[]>;
  /** Returns whether anything of an owner is stored: keys, settings, counts, or events beside that of the removal. */
  isKept(owner: string): Promise<boolean>;
  /** Changes settings. Returns false if nothing was different. */
  set(owner: string, edit: OwnerEdit, origin: Origin): Promise<boolean>;
  /** Deletes up to `limit` keys of an owner. Returns how many. */
  deleteKeys(owner: string, limit: number, origin: Origin): Promise<number>;
  /** Removes settings and counts, and the owner's events but for one of the removal. A block stays. */
  leave(owner: string, origin: Origin): Promise<void>;
}

/** Blocks and unblocks owners. Both return false if nothing was different. */
interface Blocks {
  block(owner: string, origin: Origin): Promise<boolean>;
  unblock(owner: string, origin: Origin): Promise<boolean>;
}

/** What applies to owners without settings. */
export interface OwnerDefaults {
  readonly ownerRateLimit: RateLimit | null;
  readonly ownerQuota: Quota | null;
  readonly ownerKeys: number;
}

/** The default maximum of keys of an owner, in any state. Bounds the list, its response, and storage. */
export const KEYS_MAX_DEFAULT = 1000;

/** An owner with the settings in force. */
export interface ShownOwner {
  readonly owner: string;
  readonly blocked: boolean;
  readonly rateLimit: RateLimit | null;
  readonly quota: Quota | null;
  readonly keysMax: number;
  readonly metadata: Metadata | null;
  readonly keys: number;
  /** The sum over all existing keys. */
  readonly uses: Uses;
  /** The part of the quota that is used, 0 to 1; null: no quota. */
  readonly quotaShare: number | null;
}

type UsesOf = Usage['usesOf'];

export async function shownOwner(
  stored: StoredOwner,
  store: Pick<OwnerStore, 'keyIdsOf'>,
  usesOf: UsesOf,
  defaults: OwnerDefaults,
): Promise<ShownOwner> {
  const { owner, blocked, keys, settings, units } = stored;
  const quota = settings?.quota ?? defaults.ownerQuota;
  return {
    owner,
    blocked,
    rateLimit: settings?.rateLimit ?? defaults.ownerRateLimit,
    quota,
    keysMax: settings?.keysMax ?? defaults.ownerKeys,
    metadata: settings?.metadata ?? null,
    keys,
    uses: keys === 0 ? NO_USES : sumOf(await usesOf(await store.keyIdsOf(owner))),
    quotaShare: quota && Math.min(1, units[quota.period] / quota.requests),
  };
}

const NO_USES: Uses = { today: 0, last30Days: [] };

function sumOf(usesByKey: ReadonlyMap<string, Uses>): Uses {
  const last30Days: number[] = [];
  for (const uses of usesByKey.values()) {
    for (const [ago, count] of uses.last30Days.entries()) last30Days[ago] = (last30Days[ago] ?? 0) + count;
  }
  return { today: last30Days[0] ?? 0, last30Days };
}

/** Returns the number of the UTC day, and that of its month's first day, as counts are numbered. */
export function periodsAt(nowMs: number): { readonly monthFirst: number; readonly day: number } {
  const day = dayAt(nowMs);
  return { monthFirst: monthOf(day).first, day };
}

/** Keys that one statement deletes: it holds up other writers for milliseconds. */
const DELETED_AT_ONCE = 100;

/** Removes an owner and all keys. Calls `onKeys` with how many were deleted so far. */
export async function removeOwner(
  store: OwnerStore,
  owner: string,
  origin: Origin,
  onKeys: (deleted: number) => unknown = () => {},
): Promise<void> {
  for (let deleted = 0; ; ) {
    const count = await store.deleteKeys(owner, DELETED_AT_ONCE, origin);
    deleted += count;
    onKeys(deleted);
    if (count < DELETED_AT_ONCE) break;
  }
  await store.leave(owner, origin);
}

export interface OwnerUpdate extends OwnerEdit {
  readonly blocked?: boolean | undefined;
}

/** Sets the given fields. Returns whether anything changed. */
export async function updateOwner(
  store: OwnerStore,
  blocks: Blocks,
  owner: string,
  { blocked, ...edit }: OwnerUpdate,
  origin: Origin,
): Promise<boolean> {
  const isGiven = Object.values(edit).some((given) => given !== undefined);
  const isSet = isGiven && (await store.set(owner, edit, origin));
  if (blocked === undefined) return isSet;
  const isToggled = await (blocked ? blocks.block : blocks.unblock)(owner, origin);
  return isSet || isToggled;
}

const PAGE_OWNERS = 100;

export type Owners = ReturnType<typeof createOwners>;

/** Creates what admins do with owners through tools, and what owners see. */
export function createOwners(options: {
  readonly ownerStore: OwnerStore;
  readonly adminStore: Blocks;
  readonly defaults: OwnerDefaults;
  readonly usage: Pick<Usage, 'usesOf'>;
  readonly originOf: OriginOf;
  /** Lets this process see a change before the response. */
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}) {
  const { ownerStore: store, adminStore, defaults, usage, originOf, refresh, clock, log } = options;
  const { ownerRateLimit, ownerQuota, ownerKeys } = defaults;
  const isLimited = ownerRateLimit !== null || ownerQuota !== null || ownerKeys !== KEYS_MAX_DEFAULT;

  async function shown(names: readonly string[]): Promise<readonly ShownOwner[]> {
    const owners: ShownOwner[] = [];
    for (const stored of await store.find(names, clock.nowMs())) {
      owners.push(await shownOwner(stored, store, usage.usesOf, defaults));
    }
    return owners;
  }

  return {
    /** Sets the given fields, and returns the owner's new state. */
    async update(actor: Actor, owner: string, update: OwnerUpdate): Promise<ShownOwner> {
      const changed = await updateOwner(store, adminStore, owner, update, originOf('tool', actor, actor.actor));
      if (changed) {
        await refresh();
        log.info('Owner updated', { ...actorFields(actor), owner });
      }
      const [now] = await shown([owner]);
      if (now === undefined) throw new Error('an owner was asked for, and none was returned');
      return now;
    },

    /** Returns a page of owners after a name. `next`: the name after which the next page begins; null: none. */
    async page(after: string) {
      const names = await store.namesAfter(after, PAGE_OWNERS + 1); // one more shows whether a page follows
      const page = names.slice(0, PAGE_OWNERS);
      return { owners: await shown(page), next: names.length > PAGE_OWNERS ? (page.at(-1) ?? null) : null };
    },

    /** Returns the owner's plan for the owner; null: nothing is set, neither for this owner nor for all. */
    async seen(owner: string): Promise<ShownOwner | null> {
      const [stored] = await store.find([owner], clock.nowMs(), !isLimited);
      if (stored === undefined) return null;
      const { rateLimit = null, quota = null, keysMax = null } = stored.settings ?? {};
      if (!isLimited && rateLimit === null && quota === null && keysMax === null) return null;
      return shownOwner(stored, store, usage.usesOf, defaults);
    },
  };
}
