// Polls the store's change feed to keep this process's caches current, and reports changes to them.
// Memory decides only while the last complete poll *began* less than `revocationLagMaxMs` ago: that poll has seen whatever
// other processes acknowledged before it. After that, `ensureFresh` polls at once or fails. Ages come from a clock that
// counts the time a machine sleeps. Timers do not, so no guarantee rests on them: they only poll in advance.

import { type Repeated, repeat } from '../ground/background.ts';
import { changesOf, FEED_PAGE_MAX, type FeedPage, isLost, type ReachedPosition } from '../ground/change-feed.ts';
import { type Awaitable, outageIn, StoreOutage } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { createOutageLog } from '../watch/outage.ts';
import { isForeignShaped } from './record.ts';
import type { KeyStore } from './store.ts';

/** Polls per bound. With four, one lost and one slow poll still leave a fresh one. */
const POLLS_PER_LAG = 4;
/** Retries per bound after a failed poll: more often, so that one may succeed before anybody has to wait. */
const RETRIES_PER_LAG = 16;
/** The share of the bound that a query may take before callers get 503: enough for a second try over the network. */
const QUERY_PART_OF_LAG = 0.9;
/** Caps the query timeout: however long the bound, no caller should wait for all of it. */
const QUERY_MS_MAX = 3000;
/** Subtracted from the bound for the response's way to its caller: a success must not arrive after the bound. */
const RESPONSE_MS = 25;
/** Polling stops after this long without a verification, because hosted databases bill reads. */
const IDLE_AFTER_MS = 60_000;
/** When further behind than this, dropping everything is quicker than reading the changes. */
const BEHIND_MAX = 10 * FEED_PAGE_MAX;

const NEVER = Number.NEGATIVE_INFINITY;

interface FeedListener {
  /** A page was read after `asked`; its changes are reported next. */
  onPage?(asked: ReachedPosition, page: FeedPage): void;
  /** The records with these hashes may have changed, and the owners' blocks or settings. */
  onChanges?(keyHashes: readonly string[], owners: readonly string[], changes: FeedPage['changes']): void;
  /** Anything may have changed. */
  onReset?(): void;
}

export interface FeedOptions {
  readonly store: KeyStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly revocationLagMaxMs: number;
}

export class Feed {
  /** How old what is known may be when it is acted on. */
  readonly boundMs: number;
  /** How long a query may take for its result to be fresh enough. */
  readonly queryTimeoutMs: number;
  readonly stop: () => void;
  readonly #store: KeyStore;
  readonly #clock: Clock;
  readonly #outage: ReturnType<typeof createOutageLog>;
  readonly #polling: Repeated;
  readonly #pollEveryMs: number;
  readonly #retryAfterMs: number;
  readonly #listeners: FeedListener[] = [];
  /** Up to where listeners know all changes. */
  position: ReachedPosition = { databaseId: '', seq: 0, mark: null };
  /** The last page, which says what the database holds; undefined before it. */
  #page: FeedPage | undefined;
  /**
   * When the last complete poll began (monotonic): memory was right then. Never, before the first, and after an own change
   * that none has seen.
   */
  polledAtMs = NEVER;
  /** When a key was last verified. */
  #usedAtMs = NEVER;
  /** When the last failed poll ended. */
  #failedAtMs = NEVER;

  constructor({ store, clock, log, revocationLagMaxMs: lagMaxMs }: FeedOptions) {
    this.boundMs = lagMaxMs - RESPONSE_MS;
    this.queryTimeoutMs = Math.min(lagMaxMs * QUERY_PART_OF_LAG, QUERY_MS_MAX);
    this.#pollEveryMs = lagMaxMs / POLLS_PER_LAG;
    this.#retryAfterMs = lagMaxMs / RETRIES_PER_LAG;
    this.#store = store;
    this.#clock = clock;
    this.#outage = createOutageLog(log, { on: 'change feed out of reach', off: 'change feed back' });
    const everyMs = () => this.#pauseMs();
    const polled = { everyMs, firstMs: null, clock, log, event: 'change feed broken', logsOutages: false };
    this.#polling = repeat(polled, () => this.#poll());
    this.stop = this.#polling.stop;
  }

  subscribe(listener: FeedListener): void {
    this.#listeners.push(listener);
  }

  /** Returns whether memory may decide now. Notes that it was asked to, so that polling goes on. `nowMs`: monotonic. */
  isCurrentForUse(nowMs = this.#clock.monotonicMs()): boolean {
    this.#usedAtMs = nowMs;
    return nowMs - this.polledAtMs <= this.boundMs;
  }

  /**
   * Returns whether a text may be a key of another form: only while the database holds such keys, according to a poll
   * within the bound or, during an outage, to the last one.
   */
  mayBeForeign(text: string): Awaitable<boolean> {
    return isForeignShaped(text) && this.#held('holdsForeign');
  }

  /** Returns whether the database holds rules, in the same way. */
  holdsRules(): Awaitable<boolean> {
    return this.#held('holdsRules');
  }

  /**
   * Decides at once in an outage that a poll has met within the bound, as no user token should wait for another. Rejects
   * with a StoreOutage if no poll has succeeded yet: what the database holds is unknown then.
   */
  #held(what: 'holdsForeign' | 'holdsRules'): Awaitable<boolean> {
    const nowMs = this.#clock.monotonicMs();
    const holds = () => this.#page?.[what] === true;
    const hasRead = this.#page !== undefined;
    const isAway = this.#outage.isOn && nowMs - this.#failedAtMs <= this.boundMs;
    if (this.isCurrentForUse(nowMs) || (hasRead && isAway)) return holds();
    const lastSaid = (error: unknown) => {
      const outage = outageIn(error);
      if (!hasRead) throw outage;
    };
    return this.ensureFresh().catch(lastSaid).then(holds);
  }

  /** Returns whether no key was verified lately, so that polling pauses. */
  get idle(): boolean {
    return this.#clock.monotonicMs() - this.#usedAtMs > IDLE_AFTER_MS;
  }

  /** Returns the age of what is known in ms; null before the first poll and after a `refresh` that failed. */
  lagMs = (): number | null =>
    this.polledAtMs === NEVER ? null : Math.round(this.#clock.monotonicMs() - this.polledAtMs);

  /** Returns whether a decision based on what was right at this time may still be acted on. */
  isFresh(atMs: number): boolean {
    return this.#clock.monotonicMs() - atMs <= this.boundMs;
  }

  /** Resolves when memory may be trusted again; rejects with a StoreOutage if that takes too long or fails. */
  async ensureFresh(): Promise<void> {
    // A poll already under way may have begun too long ago to prove anything; then poll once more.
    for (let tries = 0; tries < 2; tries += 1) {
      await this.#polling.run();
      if (this.isFresh(this.polledAtMs)) return;
    }
    throw new StoreOutage('the change feed answers slower than the revocation bound');
  }

  /** Resolves when a poll is complete that began after this call. Rejects with a StoreOutage if it fails. */
  async pollNow(): Promise<void> {
    await this.#polling.underWay?.catch(() => {}); // it began before
    await this.#polling.run();
  }

  /** Resolves when a poll has seen this process's own change. If the poll fails, memory is no longer trusted. */
  async refresh(): Promise<void> {
    try {
      await this.pollNow();
    } catch (error) {
      this.polledAtMs = NEVER;
      outageIn(error);
    }
  }

  /** Returns whether the store responds, from a recent poll if there is one. Doesn't count as a verification. */
  async probe(): Promise<boolean> {
    const nowMs = this.#clock.monotonicMs();
    const isKnown = this.#outage.isOn
      ? nowMs - this.#failedAtMs < this.#retryAfterMs
      : nowMs - this.polledAtMs <= this.#pollEveryMs;
    if (!isKnown) await this.#polling.run().catch(outageIn);
    return !this.#outage.isOn;
  }

  /** Returns the pause before the next poll; null when idle: the next verification polls first. */
  #pauseMs(): number | null {
    if (this.idle) return null;
    return this.#outage.isOn ? this.#retryAfterMs : this.#pollEveryMs;
  }

  async #poll(): Promise<void> {
    const beganMs = this.#clock.monotonicMs();
    try {
      await this.#readOn();
      this.polledAtMs = beganMs;
      this.#outage.ended();
    } catch (error) {
      this.#failedAtMs = this.#clock.monotonicMs();
      this.#outage.began(outageIn(error).reason);
      throw error;
    }
  }

  /**
   * Reads page by page until there are no more changes, and reports to listeners what to drop. Each page also proves that
   * the last change seen still exists; if it doesn't, the database was restored, and everything is dropped.
   */
  async #readOn(): Promise<void> {
    for (;;) {
      const asked = this.position;
      const page = await this.#store.changesAfter(asked.seq, this.queryTimeoutMs);
      for (const listener of this.#listeners) listener.onPage?.(asked, page);
      this.#page = page;
      const isFarBehind = page.prunedSeq > asked.seq || page.newestSeq - asked.seq > BEHIND_MAX;
      if (isLost(asked, page) || isFarBehind) return this.#reset(page);
      this.#report(page);
      if (page.changes.length < FEED_PAGE_MAX) return;
    }
  }

  #reset({ databaseId, newestSeq, newestMark }: FeedPage): void {
    this.position = { databaseId, seq: newestSeq, mark: newestMark };
    for (const listener of this.#listeners) listener.onReset?.();
  }

  /** Reports a page to all listeners, synchronously. */
  #report({ databaseId, changes }: FeedPage): void {
    const last = changes.at(-1);
    if (last === undefined) return;
    const { keyHashes, owners } = changesOf(changes.map(({ changed }) => changed));
    for (const listener of this.#listeners) listener.onChanges?.(keyHashes, owners, changes);
    this.position = { databaseId, seq: last.seq, mark: last.mark };
  }
}
