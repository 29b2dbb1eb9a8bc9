// Limits how often one source may have the store asked for unknown keys, and so what a flood of guessed keys can cost.
// Each source has a token bucket.
//
// Only keys that turn out wrong use up the budget, so honest callers have all of it. A caller over budget waits a
// little, then gets 429. A caller that comes back with the *same* key, as Retry-After asks, is served from a separate
// budget. A flood of ever new keys can't use that one, so an honest key from the same address still gets through.

import type { Clock } from '../clock.ts';
import { type Awaitable, err, ok, type Problem, type Result } from '../problem.ts';
import { createRecent } from '../recent.ts';
import { sleep } from '../waiting.ts';

/** Unknown keys a source may present: at 40 µs a read, under 1 % of a core. */
const MISSES_PER_S = 200;
/** What a source may save up: after a cold start, many honest callers behind one proxy present many keys at once. */
const BURST = 1000;
/** The separate budget for keys that were told to come back; no more than this is saved up. */
const RETURNING_PER_S = 50;
/** A refused key that comes back sooner than this did not wait as it was told. */
const RETURN_AFTER_MS = 900;
/** Sources remembered. Beyond this, those quiet the longest are forgotten, and start again with a full budget. */
const SOURCES_MAX = 10_000;
/** Callers that may wait, per source and in all, and how long. */
const WAITING_PER_SOURCE = 16;
const WAITING_MAX = 1000;
const WAIT_MS_MAX = 500;
/**
 * Refused keys remembered, by hash; half of them for certain, 2 s at 50,000 refusals a second. Some 60 MB in a flood.
 */
const REFUSED_MAX = 200_000;

const ADMITTED: Result<void, Problem> = ok(undefined);
const REFUSED: Result<never, Problem> = err({ code: 'rate_limited', retryAfterS: 1 });

interface Source {
  misses: number;
  returning: number;
  filledAtMs: number;
  waiting: number;
}

export interface MissBudget {
  /** Takes one read out of the source's budget, now or after a short wait, or refuses. */
  take(address: string, keyHash: string): Awaitable<Result<void, Problem>>;
  /** Gives it back: the key was known after all. */
  giveBack(address: string): void;
}

export function createMissBudget(clock: Clock): MissBudget {
  const sources = createRecent<Source>({ entries: SOURCES_MAX });
  const refusedAtMs = createRecent<number>({ entries: REFUSED_MAX });
  let waiting = 0;

  function sourceAt(address: string, nowMs: number): Source {
    const name = networkOf(address);
    const source = sources.get(name) ?? newSource(name, nowMs);
    const elapsedS = (nowMs - source.filledAtMs) / 1000;
    source.misses = Math.min(BURST, source.misses + elapsedS * MISSES_PER_S);
    source.returning = Math.min(RETURNING_PER_S, source.returning + elapsedS * RETURNING_PER_S);
    source.filledAtMs = nowMs;
    return source;
  }

  function newSource(name: string, nowMs: number): Source {
    const source = { misses: BURST, returning: RETURNING_PER_S, filledAtMs: nowMs, waiting: 0 };
    sources.set(name, source);
    return source;
  }

  function tryTake(source: Source): boolean {
    if (source.misses < 1) return false;
    source.misses -= 1;
    return true;
  }

  const mayWait = (source: Source) => source.waiting < WAITING_PER_SOURCE && waiting < WAITING_MAX;

  async function wait(source: Source, address: string, keyHash: string): Promise<Result<void, Problem>> {
    source.waiting += 1;
    waiting += 1;
    await sleep(Math.random() * WAIT_MS_MAX);
    source.waiting -= 1;
    waiting -= 1;
    return tryTake(sourceAt(address, clock.monotonicMs())) ? ADMITTED : refuse(keyHash, refusedAtMs.get(keyHash));
  }

  /** `earlierMs`: when the key was refused before, if it was. It waits from then on. */
  function refuse(keyHash: string, earlierMs: number | undefined): Result<void, Problem> {
    if (earlierMs === undefined) refusedAtMs.set(keyHash, clock.monotonicMs());
    return REFUSED;
  }

  return {
    take(address, keyHash) {
      const nowMs = clock.monotonicMs();
      const source = sourceAt(address, nowMs);
      if (tryTake(source)) return ADMITTED;
      const earlierMs = refusedAtMs.get(keyHash);
      if (earlierMs !== undefined && nowMs - earlierMs >= RETURN_AFTER_MS && source.returning >= 1) {
        refusedAtMs.delete(keyHash);
        source.returning -= 1;
        return ADMITTED;
      }
      return mayWait(source) ? wait(source, address, keyHash) : refuse(keyHash, earlierMs);
    },
    giveBack(address) {
      sourceAt(address, clock.monotonicMs()).misses += 1;
    },
  };
}

/** The network a budget belongs to: an IPv4 address, or the /64 of an IPv6 one, all of which one host may own. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = '', tail] = address.split('%', 1)[0]?.split('::') ?? [];
  const groups = head === '' ? [] : head.split(':');
  const zeros = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length);
  const all = [...groups, ...Array<string>(Math.max(0, zeros)).fill('0'), ...(tail ? tail.split(':') : [])];
  return `${all
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}
