// Lists one owner's keys, and a key's children: in pages bounded by bytes, with uses that aren't stored yet.

import { LIMITS } from '../ground/limits/index.ts';
import { createFairSemaphore } from '../ground/limits/semaphore.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { type Clock, nextTurn } from '../ground/runtime.ts';
import type { Usage } from '../uses/usage.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, createPersonBudget, personOf } from './actor.ts';
import { hasEnded, isIdShaped, type ListedKey, rotationAt } from './record.ts';
import type { DerivedKeys, KeyStore, ListedChild, ListPlace } from './store.ts';

/** The size of one page, some 500 ordinary keys: claude.ai truncates at about 150,000 characters. */
export const LIST_BYTES_MAX = 100_000;

/** The longest wait for a turn; then a list is refused. */
const LIST_WAIT_MS_MAX = 5000;
/** How many lists may wait, of all and of each person: for one, as many as the rate admits in that time. */
const LISTS_WAITING = { total: 1000, each: LIMITS.lists.burst + (LIMITS.lists.perS * LIST_WAIT_MS_MAX) / 1000 };
/** From this many keys on, the list yields to the event loop before it is completed. */
const LONG_LIST_KEYS = 50;
/** Keys that are read at once: it takes a local file's process some milliseconds, and few that don't fit are read. */
const KEYS_AT_ONCE = 200;

export type OwnKey = Awaited<ReturnType<typeof ownKeys<ListedKey>>>[number];

type PlacedOwnKey = OwnKey & ListPlace;

export interface ShownWith {
  readonly usage: Usage;
  readonly derived: DerivedKeys;
}

/** Adds to listed keys what their records don't have. */
export async function ownKeys<Key extends ListedKey>(
  keys: readonly Key[],
  { usage, derived }: ShownWith,
  nowMs: number,
) {
  const ids = keys.map(({ id }) => id);
  const [usedOf, children] = await Promise.all([usage.usesOf(ids), derived.countChildren(keys, nowMs)]);
  return keys.map((key) => {
    const { uses, leftOf } = usedOf(key.id);
    const quota = usage.quotaOf(key);
    return {
      ...key,
      /** How many living children it has. */
      children: children.get(key.id) ?? 0,
      lastUsedAtMs: usage.lastUsedAt(key),
      /** Its uses in the last 30 days; null: none. */
      uses,
      /** The quota in force, with what is left of it; null: none. */
      quota: quota && leftOf(quota),
      /** The state of its rotation; null: it is not being rotated. */
      rotation: rotationAt(key, nowMs),
      expired: hasEnded(key.expiresAtMs, nowMs),
    };
  });
}

interface ListOwnOptions extends ShownWith {
  readonly store: KeyStore;
  readonly clock: Clock;
  readonly log: Log;
}

/** Creates the lists of an owner's keys and of a key's children. Persons take turns (a fair semaphore). */
export function createLists(options: ListOwnOptions) {
  const { store, derived, clock, log } = options;
  const lists = createPersonBudget([LIMITS.lists], clock, log);
  const reading = createFairSemaphore(LIMITS.listsAtOnce, LISTS_WAITING, clock);

  async function inTurn<T>(actor: Actor, read: () => Promise<T>): Promise<Result<T, Problem>> {
    const taken = lists.take(actor);
    if (!taken.ok) return taken;
    const release = await reading.acquire(personOf(actor), LIST_WAIT_MS_MAX);
    if (release === null) return err(OVERLOADED);
    try {
      return ok(await read());
    } finally {
      void nextTurn().then(release);
    }
  }

  /** Yields the keys after a position until they surely fill a page. Returns whether there are more. */
  async function* slicesAfter(
    userId: string,
    after: ListPlace | null,
  ): AsyncGenerator<readonly PlacedOwnKey[], boolean> {
    let place = after;
    for (let bytesMax = LIST_BYTES_MAX; ; ) {
      const { keys, bytes, hasMore } = await store.listByUser(userId, place, { bytesMax, keysMax: KEYS_AT_ONCE });
      if (keys.length >= LONG_LIST_KEYS) await nextTurn();
      yield await ownKeys(keys, options, clock.nowMs());
      bytesMax -= bytes;
      place = keys.at(-1) ?? place;
      if (!hasMore || bytesMax <= 0) return hasMore;
    }
  }

  return {
    /**
     * Lists the actor's keys after a position (null: from the newest), as many as fit on the page that `begin` begins
     * meanwhile. That resolves with a function that returns whether the next key fits, too; by default, all do.
     */
    list: (
      actor: Actor,
      after: ListPlace | null,
      begin: () => Promise<(key: PlacedOwnKey) => boolean> = async () => () => true,
    ) =>
      inTurn(actor, async () => {
        const slices = slicesAfter(actor.userId, after);
        const [first, fits] = await Promise.all([slices.next(), begin()]);
        const keys: PlacedOwnKey[] = [];
        let slice = first;
        for (; !slice.done; slice = await slices.next()) {
          for (const key of slice.value) {
            if (!fits(key)) return { keys, hasMore: true };
            keys.push(key);
          }
        }
        return { keys, hasMore: slice.value };
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
