// Lists one owner's keys, and a key's children: in pages bounded by bytes, with uses that aren't stored yet.

import { LIMITS } from '../ground/limits/index.ts';
import { createFairSemaphore } from '../ground/limits/semaphore.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { type Clock, nextTurn } from '../ground/runtime.ts';
import type { Uses } from '../uses/shown-uses.ts';
import type { Usage } from '../uses/usage.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, createPersonBudget, personOf } from './actor.ts';
import type { Owners, ShownOwner } from './owners.ts';
import { hasEnded, isIdShaped, type ListedKey, type Rotation, rotationAt } from './record.ts';
import type { DerivedKeys, KeyStore, ListedChild, ListPlace } from './store.ts';

/** The size of one page, some 500 ordinary keys: claude.ai truncates at about 150,000 characters. */
export const LIST_BYTES_MAX = 100_000;

/** The longest wait for a turn; then a list is refused. */
const LIST_WAIT_MS_MAX = 5000;
/** How many lists may wait, of all and of each person: for one, as many as the rate admits in that time. */
const LISTS_WAITING = { total: 1000, each: LIMITS.lists.burst + (LIMITS.lists.perS * LIST_WAIT_MS_MAX) / 1000 };
/** From this many keys on, the list yields to the event loop before it is completed. */
const LONG_LIST_KEYS = 50;

/** A key as its owner sees it. */
export interface OwnKey extends ListedKey {
  readonly expired: boolean;
  /** How many living children it has. */
  readonly children: number;
  /** Its uses in the last 30 days; null: none. */
  readonly uses: Uses | null;
  /** The state of its rotation; null: it is not being rotated. */
  readonly rotation: Rotation | null;
}

export interface OwnPage {
  readonly keys: readonly (OwnKey & ListPlace)[];
  /** How many of the owner's keys there are from the first of these on. */
  readonly remaining: number;
  /** The owner's settings in force; null: none are set, neither for this owner nor for all. */
  readonly plan: ShownOwner | null;
}

export type KnownUses = Pick<Usage, 'quotaOf' | 'lastUsedAt' | 'usesOf'>;

/** What lists need beside the records. */
export interface ShownWith {
  readonly usage: KnownUses;
  readonly derived: Pick<DerivedKeys, 'countChildren'>;
}

/** Adds to listed keys what their records don't have. */
export async function ownKeys<Key extends ListedKey>(
  keys: readonly Key[],
  { usage, derived }: ShownWith,
  nowMs: number,
): Promise<readonly (Key & OwnKey)[]> {
  const ids = keys.map(({ id }) => id);
  const [uses, children] = await Promise.all([usage.usesOf(ids), derived.countChildren(keys, nowMs)]);
  return keys.map((key) => ({
    ...key,
    children: children.get(key.id) ?? 0,
    lastUsedAtMs: usage.lastUsedAt(key),
    uses: uses.get(key.id) ?? null,
    quota: usage.quotaOf(key),
    rotation: rotationAt(key, nowMs),
    expired: hasEnded(key.expiresAtMs, nowMs),
  }));
}

export interface ListOwnOptions extends ShownWith {
  readonly planOf: Owners['seen'];
  readonly store: Pick<KeyStore, 'listByUser'>;
  readonly derived: Pick<DerivedKeys, 'countChildren' | 'listChildren'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Creates the lists of an owner's keys and of a key's children. Persons take turns (a fair semaphore). */
export function createLists(options: ListOwnOptions) {
  const { store, derived, planOf, clock, log } = options;
  const lists = createPersonBudget([LIMITS.lists], clock, log);
  const reading = createFairSemaphore(LIMITS.listsAtOnce, LISTS_WAITING, clock);

  async function inTurn<T>(actor: Actor, read: () => Promise<T>): Promise<Result<T, Problem>> {
    const taken = lists.take(actor);
    if (!taken.ok) return taken;
    const release = await reading.acquire(personOf(actor), LIST_WAIT_MS_MAX);
    if (release === null) return err({ code: 'overloaded' });
    try {
      return ok(await read());
    } finally {
      void nextTurn().then(release);
    }
  }

  return {
    /** Lists the actor's keys after a position (null: from the newest), up to about LIST_BYTES_MAX of JSON. */
    list: (actor: Actor, after: ListPlace | null): Promise<Result<OwnPage, Problem>> =>
      inTurn(actor, async () => {
        const [listed, plan] = await Promise.all([
          store.listByUser(actor.userId, after, LIST_BYTES_MAX),
          planOf(actor.userId),
        ]);
        if (listed.keys.length >= LONG_LIST_KEYS) await nextTurn();
        return { ...listed, plan, keys: await ownKeys(listed.keys, options, clock.nowMs()) };
      }),
    /** Lists the living children of the actor's key after a position; none if the key is another owner's. */
    listChildren: (
      actor: Actor,
      keyId: string,
      after: ListPlace | null,
    ): Promise<Result<readonly ListedChild[], Problem>> =>
      inTurn(actor, async () =>
        isIdShaped(keyId) ? derived.listChildren(keyId, actor.userId, clock.nowMs(), after) : [],
      ),
  };
}
