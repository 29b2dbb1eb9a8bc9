// The documents of clients whose id is a URL, as this process has them: fetched when they are needed, kept for as long as
// they say, and for days more while their server is away. Who makes up ids under a wildcard keeps nobody else out.

import { createLruCache, singleFlights } from '../ground/cache.ts';
import { fetchDocument, fetchFault, inTime } from '../ground/documents.ts';
import { LIMITS } from '../ground/limits/index.ts';
import { createSlidingBuckets } from '../ground/limits/rates.ts';
import { createFairSemaphore, type FairSemaphore } from '../ground/limits/semaphore.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { redirectUrisIn } from './client-document.ts';
import { admissionOf, type ClientRules } from './client-ids.ts';

/** The most time for a fetch, with the wait for its place among the others. */
const FETCH_MS_MAX = 5000;
const DOCUMENT_BYTES_MAX = 10 * 1024;

const MINUTE_MS = 60_000;
const KEPT_MS_MIN = 5 * MINUTE_MS;
const KEPT_MS = 60 * MINUTE_MS;
const KEPT_MS_MAX = 24 * 60 * MINUTE_MS;
/** How much longer an old document is used while no new one can be fetched. */
const KEPT_MORE_MS = 7 * 24 * 60 * MINUTE_MS;
/** The back-off after a document could not be fetched. */
const PAUSE_MS = 10_000;

/** Documents of ids under a wildcard. Those of exact ids stay, however many there are. */
const KEPT_MAX = 100;
const FAILURES_MAX = 1000;
/** The fetches at one time: of all, and of each host. */
const TURNS = { total: 4, each: 2 };
/** The same for ids under a wildcard: of each host a place is left for what is listed exactly. */
const WILDCARD_TURNS = { total: 2, each: 1 };
const WAITING = { total: 1000, each: 500 };

/**
 * Redirect URIs, and until when they count, in monotonic milliseconds of a clock that goes on while the machine sleeps.
 */
interface Kept {
  readonly redirectUris: readonly string[];
  readonly freshUntilMs: number;
  /** When its server was asked last since it became unreachable; null: it is reachable. */
  readonly triedAtMs: number | null;
}

type Fetched =
  | { readonly is: 'good'; readonly redirectUris: readonly string[]; readonly keepMs: number }
  | { readonly is: 'wrong' | 'away'; readonly reason: string };

export interface ClientDocuments {
  /** Returns whether the document of this id would be read. */
  admits(clientId: string): boolean;
  /** Returns the redirect URIs of an admitted client. `network`: who asks (networkOf in ground/ip.ts). */
  redirectUrisOf(clientId: string, network: string): Promise<Result<readonly string[], Problem>>;
}

export interface ClientDocumentsOptions {
  readonly rules: ClientRules;
  /** A clock that goes on while the machine sleeps. */
  readonly ageClock: Clock;
  readonly log: Log;
}

export function createClientDocuments({ rules, ageClock: clock, log }: ClientDocumentsOptions): ClientDocuments {
  const exact = new Map<string, Kept>();
  const byWildcard = createLruCache<Kept>({ entries: KEPT_MAX });
  const failures = createLruCache<{ readonly problem: Problem; readonly atMs: number }>({ entries: FAILURES_MAX });
  const flights = singleFlights<Result<readonly string[], Problem>>();
  const turns = createFairSemaphore(TURNS, WAITING, clock);
  const wildcardTurns = createFairSemaphore(WILDCARD_TURNS, WAITING, clock);
  const rates = createRates(clock);

  const isExact = (id: string) => admissionOf(rules, id) === 'exact';
  const keptBy = (id: string): { get(id: string): Kept | undefined; set(id: string, kept: Kept): unknown } =>
    isExact(id) ? exact : byWildcard;

  /** Acquires a place among the fetches, then fetches. */
  async function load(id: string): Promise<Fetched> {
    const untilMs = clock.monotonicMs() + FETCH_MS_MAX;
    const { host } = new URL(id);
    const semaphores = isExact(id) ? [turns] : [wildcardTurns, turns];
    const releases = await allOf(semaphores, host, () => untilMs - clock.monotonicMs());
    if (releases === null) return { is: 'away', reason: 'had to wait too long for its turn' };
    try {
      return await inTime(clock, untilMs - clock.monotonicMs(), (signal) => loadDocument(id, signal));
    } finally {
      for (const release of releases) release();
    }
  }

  async function refresh(id: string): Promise<Result<readonly string[], Problem>> {
    const found = await load(id);
    const nowMs = clock.monotonicMs();
    const old = keptBy(id).get(id);
    switch (found.is) {
      case 'good':
        failures.delete(id);
        keptBy(id).set(id, {
          redirectUris: found.redirectUris,
          freshUntilMs: nowMs + found.keepMs,
          triedAtMs: null,
        });
        return ok(found.redirectUris);
      case 'away':
        if (old !== undefined && nowMs < old.freshUntilMs + KEPT_MORE_MS) {
          if (old.triedAtMs === null) log.warn('client document out of reach', { client: id, reason: found.reason });
          keptBy(id).set(id, { ...old, triedAtMs: nowMs });
          return ok(old.redirectUris);
        }
        return failed(id, { code: 'client_unavailable', reason: found.reason });
      case 'wrong':
        if (old !== undefined) forget(id);
        return failed(id, { code: 'invalid_input', issues: [], detail: WRONG_DOCUMENT });
    }
  }

  function forget(id: string): void {
    exact.delete(id);
    byWildcard.delete(id);
  }

  function failed(id: string, problem: Problem): Result<never, Problem> {
    failures.set(id, { problem, atMs: clock.monotonicMs() });
    return err(problem);
  }

  return {
    admits: (id) => admissionOf(rules, id) !== null,

    async redirectUrisOf(id, network) {
      const nowMs = clock.monotonicMs();
      const kept = keptBy(id).get(id);
      if (kept !== undefined && nowMs < kept.freshUntilMs) return ok(kept.redirectUris);
      const isServing = kept !== undefined && nowMs < kept.freshUntilMs + KEPT_MORE_MS;
      if (isServing && kept.triedAtMs !== null) {
        // Nobody waits for a server that was away a moment ago.
        if (nowMs - kept.triedAtMs >= PAUSE_MS) void flights.run(id, () => refresh(id));
        return ok(kept.redirectUris);
      }
      const failure = failures.get(id);
      if (failure !== undefined && nowMs - failure.atMs < PAUSE_MS) return err(failure.problem);
      return flights.run(id, async () => {
        // A good document takes from no rate: who makes up ids would keep it out when it gets old.
        const waitS = isExact(id) || isServing ? 0 : rates.take(network);
        return waitS > 0 ? err({ code: 'rate_limited', retryAfterS: Math.ceil(waitS) }) : refresh(id);
      });
    },
  };
}

export const WRONG_DOCUMENT = 'The document by which the program identifies itself can’t be used here';

/** Creates the rates of fetches for ids under a wildcard: of an address, and of all. */
function createRates(clock: Clock) {
  const each = createSlidingBuckets(LIMITS.clientDocuments, clock);
  const all = createSlidingBuckets(LIMITS.clientDocumentsOfAll, clock);
  return {
    take(network: string): number {
      const waitS = Math.max(each.waitS(network), all.waitS('all'));
      if (waitS > 0) return waitS;
      each.take(network);
      all.take('all');
      return 0;
    },
  };
}

/** Acquires a place of each semaphore in time, or of none. */
async function allOf(semaphores: readonly FairSemaphore[], owner: string, leftMs: () => number) {
  const releases: (() => void)[] = [];
  for (const semaphore of semaphores) {
    const release = await semaphore.acquire(owner, Math.max(0, leftMs()));
    if (release === null) {
      for (const taken of releases) taken();
      return null;
    }
    releases.push(release);
  }
  return releases;
}

async function loadDocument(id: string, signal: AbortSignal): Promise<Fetched> {
  try {
    const { status, headers, body } = await fetchDocument(id, DOCUMENT_BYTES_MAX, signal);
    if (status !== 200) return { is: 'away', reason: `answered ${status}` };
    if (body === null) return { is: 'wrong', reason: 'is too large' };
    if (!JSON_TYPE.test(headers.get('content-type') ?? '')) return { is: 'wrong', reason: 'is not application/json' };
    const uris = redirectUrisIn(id, body);
    if (!uris.ok) return { is: 'wrong', reason: uris.error };
    return { is: 'good', redirectUris: uris.value, keepMs: keepMsOf(headers.get('cache-control') ?? '') };
  } catch (error) {
    return { is: 'away', reason: fetchFault(error) };
  }
}

const JSON_TYPE = /^application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i;

/** Returns how long a document is kept (RFC 9111 §5.2.2). */
function keepMsOf(cacheControl: string): number {
  if (/(?:^|[,\s])no-store(?:[,\s]|$)/i.test(cacheControl)) return KEPT_MS_MIN;
  const [, seconds] = /(?:^|[,\s])max-age="?(\d+)/i.exec(cacheControl) ?? [];
  return seconds === undefined ? KEPT_MS : Math.min(KEPT_MS_MAX, Math.max(KEPT_MS_MIN, Number(seconds) * 1000));
}
