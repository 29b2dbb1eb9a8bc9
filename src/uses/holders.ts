// Keeps the counts of keys and owners that are in use: of keys whose records are cached, of those with counts that wait to
// be written, and of their owners. Counts come with the read of a record, so that no record is known without them.

import { type FeedPosition, hasReached } from '../ground/change-feed.ts';
import { type Calendar, createCalendar } from '../ground/limits/rates.ts';
import type { Limits } from '../ground/rate-limit.ts';
import type { Clock } from '../ground/runtime.ts';
import { type Allowance, allowanceOf, Holder } from './holder.ts';
import type { CountsAsOf, DefaultCounts, KeyCounts } from './store.ts';

export interface CountedKey extends Limits {
  readonly id: string;
  readonly createdAtMs: number;
  readonly userId: string;
  /** The limits on all keys of its owner together; null: none are set. */
  readonly ownerSettings: Limits | null;
}

/** What was read with a key's record. */
export interface ReadCounts {
  readonly position: FeedPosition;
  /** The key's counts; null: a replica doesn't know. */
  readonly counts: KeyCounts | null;
  /** The counts of all the owner's keys together; null: not counted, or a replica doesn't know. */
  readonly ownerCounts: KeyCounts | null;
  readonly asOf: CountsAsOf;
}

export interface HoldersOptions {
  /** Those of keys without their own. */
  readonly keyDefaults: Limits;
  /** Those on all keys together of an owner without his own. */
  readonly ownerDefaults: Limits;
  readonly clock: Clock;
}

const countedBy = ({ limit, quota }: Allowance): DefaultCounts => ({
  windowS: limit?.windowS ?? 0,
  hasMonth: quota?.period === 'month',
});

const isUnlimited = ({ limit, quota }: Allowance): boolean => limit === null && quota === null;

/** Returns the allowance of a holder with its own limits (null: none), where the server's has others. */
function allowanceFor(own: Limits | null, server: Allowance): Allowance {
  const { rateLimit = null, quota = null } = own ?? {};
  if (rateLimit === null && quota === null) return server;
  return allowanceOf({ rateLimit: rateLimit ?? server.limit, quota: quota ?? server.quota });
}

export class Holders {
  readonly #clock: Clock;
  readonly #calendar: Calendar;
  readonly #serverAllowance: Allowance;
  readonly #ownersAllowance: Allowance;
  /** Those that something keeps, by id: of each key and owner there is one. */
  readonly #kept = { key: new Map<string, Holder>(), owner: new Map<string, Holder>() };
  /** Whether counts were forgotten for lack of memory: then only the primary knows those of unknown keys. */
  hasForgotten = false;

  constructor({ keyDefaults, ownerDefaults, clock }: HoldersOptions) {
    this.#clock = clock;
    this.#calendar = createCalendar(clock);
    this.#serverAllowance = allowanceOf(keyDefaults);
    this.#ownersAllowance = allowanceOf(ownerDefaults);
  }

  /** Keeps a holder, and its owner's, until as many calls of `drop`. Returns the one to use from now on. */
  keep(holder: Holder): Holder {
    const one = this.current(holder);
    one.keepers += 1;
    if (one.keepers > 1) return one;
    this.#kept[one.kind].set(one.id, one);
    if (one.owner !== null) one.owner = this.keep(one.owner);
    return one;
  }

  /** Undoes one `keep`. `isEvicted`: for lack of memory. */
  drop(holder: Holder, isEvicted = false): void {
    this.hasForgotten ||= isEvicted; // at the latest when the exchange that may keep it is over
    holder.keepers -= 1;
    if (holder.keepers > 0) return;
    this.#kept[holder.kind].delete(holder.id);
    if (holder.owner !== null) this.drop(holder.owner);
  }

  /** Returns the holder that is kept of the same key or owner; this one if none is. */
  current(holder: Holder): Holder {
    return holder.keepers > 0 ? holder : (this.#kept[holder.kind].get(holder.id) ?? holder);
  }

  /** Returns the holder of a key; undefined: it isn't kept, so the database has all that is known of it. */
  find = (keyId: string): Holder | undefined => this.#kept.key.get(keyId);

  /** Returns the holder of an owner; undefined: it isn't kept, or nothing is counted for all keys together. */
  findOwner = (owner: string): Holder | undefined => this.#kept.owner.get(owner);

  /** Returns the holders whose limits a use of this key counts for: its own, then its owner's, with the current windows. */
  holdersOf(key: Holder, nowMs: number): readonly Holder[] {
    const own = this.#opened(key, nowMs);
    return own.owner === null ? [own] : [own, this.#opened(own.owner, nowMs)];
  }

  /** Returns which counts to read with each key. `exchanged`: see CountsAsOf. */
  countsAsOf(exchanged: number): CountsAsOf {
    const owner = isUnlimited(this.#ownersAllowance) ? null : countedBy(this.#ownersAllowance);
    return { nowMs: this.#clock.nowMs(), key: countedBy(this.#serverAllowance), owner, exchanged };
  }

  /**
   * Returns the holder of a key as it was read: the one that is kept, with what the read brought, or a new one. `isCurrent`:
   * every later change will be reported.
   */
  holderOf(record: CountedKey, read: ReadCounts, isCurrent: boolean): Holder {
    const { id, createdAtMs, userId } = record;
    const keyAllowance = allowanceFor(record, this.#serverAllowance);
    const key = this.find(id) ?? new Holder('key', id, createdAtMs, keyAllowance, this.#calendar);
    const isNews = this.#merge(key, keyAllowance, read.counts, read, isCurrent);
    const allowance = allowanceFor(record.ownerSettings, this.#ownersAllowance);
    // Without limits nothing is counted for all keys together.
    const owner = isUnlimited(allowance)
      ? null
      : (this.findOwner(userId) ?? new Holder('owner', userId, 0, allowance, this.#calendar));
    if (owner !== null) this.#merge(owner, allowance, read.ownerCounts, read, isCurrent);
    if (isNews) this.#setOwner(key, userId, owner);
    return key;
  }

  /** Merges what was read; an allowance only if it is current, or nothing newer is known. Returns whether that is so. */
  #merge(
    holder: Holder,
    allowance: Allowance,
    counts: KeyCounts | null,
    { position, asOf }: ReadCounts,
    isCurrent: boolean,
  ): boolean {
    const isNews = isCurrent || holder.position === null || hasReached(position, holder.position);
    holder.openWindows(this.#calendar);
    if (isNews) {
      holder.position = position;
      holder.setAllowance(allowance, this.#calendar);
    }
    if (counts === null) holder.makeEarly();
    else holder.mergeCounts(counts, allowance, asOf);
    return isNews;
  }

  #setOwner(key: Holder, userId: string, owner: Holder | null): void {
    const before = key.owner;
    key.userId = userId;
    key.owner = owner !== null && key.keepers > 0 ? this.keep(owner) : owner;
    if (before !== null && key.keepers > 0) this.drop(before);
  }

  #opened(holder: Holder, nowMs: number): Holder {
    const one = this.current(holder);
    if (one.isDue(nowMs)) one.openWindows(this.#calendar);
    return one;
  }
}
