// Holds the long polls of /changes, and wakes them: after a poll of the feed that concerns them, when their caller's
// key may have ended, and at a stop. Bounded for each key, each owner and in all, so that nobody keeps out callers that
// hold fewer. api/changes.ts decides on their answers.

import { LIMITS } from '../ground/limits/index.ts';
import { nextTurn } from '../ground/runtime.ts';
import type { Feed } from '../keys/feed.ts';

const { total: HELD_MAX, each: HELD_MAX_OF_KEY } = LIMITS.listeners;
const HELD_MAX_OF_OWNER = LIMITS.listenersOfOwner.each;

const WOKEN_PER_TURN = 20;

/**
 * Why a waiting request wakes: a poll was complete (`polled`) or was not (`failed`), or the caller's key may have ended
 * (`suspect`). Two reasons are final: another caller needs the place or the server stops (`full`), or the client has
 * hung up (`gone`).
 */
export type Wake = 'polled' | 'failed' | 'suspect' | 'full' | 'gone';

export interface Waiting {
  readonly keyId: string;
  readonly owner: string;
  /** The changes in the feed after which the caller's key may have ended. */
  readonly restsOn: readonly string[];
  /** When the caller's key expires, by the wall clock; null: never. */
  readonly endsAtMs: number | null;
  /** When it is answered even without news, in monotonic milliseconds. */
  readonly untilMs: number;
}

/** A request that waits. */
export class HeldRequest {
  #wake: Wake | undefined;
  #resolve: ((wake: Wake) => void) | undefined;
  /** True if the caller's key must be revalidated before the response. */
  isSuspect = false;
  /** True while it waits for any complete poll, not only for one with news. */
  isUndecided = false;
  /** The last change that it has seen. */
  seq = 0;

  constructor(readonly facts: Waiting) {}

  /** Resolves when something wakes the request. */
  next(): Promise<Wake> {
    const wake = this.#wake;
    if (wake === undefined) {
      return new Promise((resolve) => {
        this.#resolve = resolve;
      });
    }
    if (!isFinal(wake)) this.#wake = undefined;
    return Promise.resolve(wake);
  }

  wake(wake: Wake): void {
    const resolve = this.#resolve;
    this.#resolve = undefined;
    if (wake === 'suspect') this.isSuspect = true;
    if (isFinal(wake) || (resolve === undefined && !isFinal(this.#wake))) this.#wake = wake;
    resolve?.(wake);
  }
}

const isFinal = (wake: Wake | undefined): boolean => wake === 'full' || wake === 'gone';

/** Requests by key, owner or subject, in order of arrival. */
type Index = Map<string, Set<HeldRequest>>;

export type HeldRequests = ReturnType<typeof createHeldRequests>;

export function createHeldRequests(feed: Pick<Feed, 'subscribe' | 'keepPolling' | 'position'>, clock: Clocks) {
  const all = new Set<HeldRequest>();
  const byKey: Index = new Map();
  const byOwner: Index = new Map();
  const bySubject: Index = new Map();
  let isStopping = false;

  function wakeSubjects(changed: readonly string[]): void {
    if (all.size === 0) return;
    for (const subject of changed) for (const held of bySubject.get(subject) ?? []) held.wake('suspect');
  }

  /** Wakes a few in each turn of the event loop. A thousand responses at once would delay all other requests. */
  async function wakeInTurns(due: readonly HeldRequest[], wake: Wake): Promise<void> {
    for (const [at, held] of due.entries()) {
      if (at > 0 && at % WOKEN_PER_TURN === 0) await nextTurn();
      held.wake(wake);
    }
  }

  feed.subscribe({
    onChanges: (_keyHashes, _owners, changes) => wakeSubjects(changes.map(({ changed }) => changed)),
    onReset() {
      for (const held of all) held.wake('suspect');
    },
    onPolled(isComplete) {
      if (all.size === 0) return;
      const [nowMs, wallMs, { seq }] = [clock.monotonicMs(), clock.nowMs(), feed.position];
      const due: HeldRequest[] = [];
      for (const held of all) {
        const { untilMs, endsAtMs } = held.facts;
        if (endsAtMs !== null && endsAtMs < wallMs) held.wake('suspect');
        else if (!isComplete || held.isUndecided || held.seq !== seq || nowMs >= untilMs) due.push(held);
      }
      void wakeInTurns(due, isComplete ? 'polled' : 'failed');
      feed.keepPolling();
    },
  });

  function leave(held: HeldRequest): void {
    if (!all.delete(held)) return;
    remove(byKey, held.facts.keyId, held);
    remove(byOwner, held.facts.owner, held);
    for (const subject of held.facts.restsOn) remove(bySubject, subject, held);
  }

  function evictOldest(among: Iterable<HeldRequest> | undefined): void {
    for (const oldest of among ?? []) {
      leave(oldest);
      oldest.wake('full');
      return;
    }
  }

  function makeRoomFor({ keyId, owner }: Waiting): void {
    if ((byKey.get(keyId)?.size ?? 0) >= HELD_MAX_OF_KEY) evictOldest(byKey.get(keyId));
    if ((byOwner.get(owner)?.size ?? 0) >= HELD_MAX_OF_OWNER) evictOldest(byOwner.get(owner));
    if (all.size >= HELD_MAX) evictOldest(largestOf(byOwner));
  }

  return {
    /** Holds a request until `leave`. It may be woken early to make room for another. */
    enter(facts: Waiting): HeldRequest {
      const held = new HeldRequest(facts);
      if (isStopping) {
        held.wake('full');
        return held;
      }
      makeRoomFor(facts);
      all.add(held);
      add(byKey, facts.keyId, held);
      add(byOwner, facts.owner, held);
      for (const subject of facts.restsOn) add(bySubject, subject, held);
      feed.keepPolling();
      return held;
    },
    leave,
    /** Answers all waiting requests now, and later ones as they come. */
    stop(): void {
      isStopping = true;
      for (const held of [...all]) evictOldest([held]);
    },
    get count() {
      return all.size;
    },
  };
}

interface Clocks {
  nowMs(): number;
  monotonicMs(): number;
}

function add(index: Index, text: string, held: HeldRequest): void {
  const there = index.get(text);
  if (there === undefined) index.set(text, new Set([held]));
  else there.add(held);
}

function remove(index: Index, text: string, held: HeldRequest): void {
  const there = index.get(text);
  there?.delete(held);
  if (there?.size === 0) index.delete(text);
}

function largestOf(index: Index): Set<HeldRequest> | undefined {
  let largest: Set<HeldRequest> | undefined;
  for (const held of index.values()) if (held.size > (largest?.size ?? 0)) largest = held;
  return largest;
}
