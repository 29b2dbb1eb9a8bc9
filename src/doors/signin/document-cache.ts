// Fetches and caches the documents of clients whose id is a URL. An entry lives as long as its headers say, and some
// days longer while its server is out of reach. Made-up ids under a wildcard can't evict or delay exact ones.

import { admittedIds, type ClientRules } from '../../config/client-ids.ts';
import { isSameRedirect } from '../../config/redirects.ts';
import { createLruCache, singleFlights } from '../../ground/cache.ts';
import { fetchDocument, fetchFault, inTime } from '../../ground/fetching.ts';
import { LIMITS } from '../../ground/limits/index.ts';
import { acquireAll, createFairSemaphore } from '../../ground/limits/semaphore.ts';
import { invalidInput, type Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { Log } from '../../watch/log.ts';
import { redirectUrisIn } from './client-document.ts';
import { createSlidingWindows } from './sliding-windows.ts';

/** The timeout of a fetch, including the wait for the semaphore. */
const FETCH_MS_MAX = 5000;
const DOCUMENT_BYTES_MAX = 10 * 1024;

const MINUTE_MS = 60_000;
const KEPT_MS_MIN = 5 * MINUTE_MS;
const KEPT_MS = 60 * MINUTE_MS;
const KEPT_MS_MAX = 24 * 60 * MINUTE_MS;
/** How much longer a stale document is used while no new one can be fetched. */
const KEPT_MORE_MS = 7 * 24 * 60 * MINUTE_MS;
/** The least time between two fetches of a document, whether the first failed or not. */
const PAUSE_MS = 10_000;

/** The most cached documents of ids under a wildcard. Those of exact ids are never evicted. */
const KEPT_MAX = 100;
const FAILURES_MAX = 1000;
/** The concurrent fetches, in all and per host. */
const FETCHES = { total: 4, each: 2 };
/** The same for ids under a wildcard, which leaves a place per host for exact ids. */
const WILDCARD_FETCHES = { total: 2, each: 1 };
const WAITING = { total: 1000, each: 500 };

/** A cache entry. Its times are monotonic milliseconds of a clock that also counts while the machine sleeps. */
interface Kept {
  readonly redirectUris: readonly string[];
  readonly freshUntilMs: number;
  /** The last attempt to read it. */
  readonly readAtMs: number;
  /** Whether that attempt failed. */
  readonly isAway: boolean;
}

type Fetched =
  | { readonly is: 'good'; readonly redirectUris: readonly string[]; readonly keepMs: number }
  | { readonly is: 'wrong' | 'away'; readonly reason: string };

type RedirectUris = Result<readonly string[], Problem>;

export type ClientDocuments = ReturnType<typeof createClientDocuments>;

/** Creates what reads the documents. `clock` also counts while the machine sleeps. */
export function createClientDocuments(rules: ClientRules, clock: Clock, log: Log) {
  const exact = new Map<string, Kept>();
  const byWildcard = createLruCache<Kept>({ entries: KEPT_MAX });
  const failures = createLruCache<{ readonly problem: Problem; readonly atMs: number }>({ entries: FAILURES_MAX });
  const flights = singleFlights<RedirectUris>();
  const semaphore = createFairSemaphore(FETCHES, WAITING, clock);
  const wildcardSemaphore = createFairSemaphore(WILDCARD_FETCHES, WAITING, clock);
  const rates = createRates(clock);

  const admitted = new RegExp(admittedIds(rules));

  const isExact = (id: string) => rules.exact.includes(id);
  const keptBy = (id: string) => (isExact(id) ? exact : byWildcard);

  /** Fetches a document, within the semaphores. */
  async function load(id: string): Promise<Fetched> {
    const untilMs = clock.monotonicMs() + FETCH_MS_MAX;
    const { host } = new URL(id);
    const semaphores = isExact(id) ? [semaphore] : [wildcardSemaphore, semaphore];
    const turns = semaphores.map((one) => [one, host] as const);
    const release = await acquireAll(turns, FETCH_MS_MAX, clock);
    if (release === null) return { is: 'away', reason: 'had to wait too long for its turn' };
    try {
      return await inTime(clock, untilMs - clock.monotonicMs(), (signal) => loadDocument(id, signal));
    } finally {
      release();
    }
  }

  async function refresh(id: string): Promise<RedirectUris> {
    const found = await load(id);
    const nowMs = clock.monotonicMs();
    const old = keptBy(id).get(id);
    switch (found.is) {
      case 'good':
        keptBy(id).set(id, {
          redirectUris: found.redirectUris,
          freshUntilMs: nowMs + found.keepMs,
          readAtMs: nowMs,
          isAway: false,
        });
        return ok(found.redirectUris);
      case 'away':
        if (old !== undefined && nowMs < old.freshUntilMs + KEPT_MORE_MS) {
          if (!old.isAway) log.warn('client document out of reach', { client: id, reason: found.reason });
          keptBy(id).set(id, { ...old, readAtMs: nowMs, isAway: true });
          return ok(old.redirectUris);
        }
        return failed(id, found.reason, { code: 'client_unavailable', reason: found.reason });
      case 'wrong':
        keptBy(id).delete(id);
        return failed(id, found.reason, WRONG_DOCUMENT);
    }
  }

  function failed(id: string, reason: string, problem: Problem): RedirectUris {
    log.warnThrottled('client document not usable', id, { client: id, reason });
    failures.set(id, { problem, atMs: clock.monotonicMs() });
    return err(problem);
  }

  return {
    /** Returns whether the rules admit the id, so that its document may be read. */
    admits: (id: string): boolean => admitted.test(id),

    /**
     * Returns the redirect URIs of an admitted client. If a cached document doesn't name `redirectUri`, it is read again:
     * the client may have a new one. `network` is the requester's (networkOf in ground/ip.ts).
     */
    async redirectUrisOf(id: string, redirectUri: string | null, network: string): Promise<RedirectUris> {
      const nowMs = clock.monotonicMs();
      const kept = keptBy(id).get(id);
      const isServing = kept !== undefined && nowMs < kept.freshUntilMs + KEPT_MORE_MS;
      const wasJustRead = kept !== undefined && nowMs - kept.readAtMs < PAUSE_MS;
      if (isServing && kept.isAway) {
        // Serve the old document meanwhile: nobody should wait for a server that was just out of reach.
        if (!wasJustRead) void flights.run(id, () => refresh(id));
        return ok(kept.redirectUris);
      }
      if (kept !== undefined && nowMs < kept.freshUntilMs) {
        const suffices = wasJustRead || redirectUri === null || names(kept, redirectUri);
        // Made-up redirects spend the rate of made-up ids.
        if (suffices || (!isExact(id) && rates.take(network) > 0)) return ok(kept.redirectUris);
        return flights.run(id, () => refresh(id));
      }
      const failure = failures.get(id);
      if (failure !== undefined && nowMs - failure.atMs < PAUSE_MS) return err(failure.problem);
      return flights.run(id, async () => {
        // Refreshing a good document spends no rate: made-up ids must not keep it from being refreshed.
        const waitS = isExact(id) || isServing ? 0 : rates.take(network);
        return waitS > 0 ? err({ code: 'rate_limited', retryAfterS: Math.ceil(waitS) }) : refresh(id);
      });
    },
  };
}

const names = ({ redirectUris }: Kept, redirectUri: string): boolean =>
  redirectUris.some((uri) => isSameRedirect(uri, redirectUri));

const UNUSABLE = 'The document by which the program identifies itself can’t be used here';
const WRONG_DOCUMENT = invalidInput('client_id', UNUSABLE, UNUSABLE);

/** Creates the rate limits of fetches for ids under a wildcard: per network, and in all. */
function createRates(clock: Clock) {
  const each = createSlidingWindows(LIMITS.clientDocuments, clock);
  const all = createSlidingWindows(LIMITS.clientDocumentsOfAll, clock);
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

async function loadDocument(id: string, signal: AbortSignal): Promise<Fetched> {
  try {
    const { status, headers, body } = await fetchDocument(id, DOCUMENT_BYTES_MAX, signal);
    if (status !== 200) return { is: 'away', reason: `answered ${status}` };
    if (!body.ok) return { is: 'wrong', reason: body.error };
    if (!JSON_TYPE.test(headers.get('content-type') ?? '')) return { is: 'wrong', reason: 'is not application/json' };
    const uris = redirectUrisIn(id, body.value);
    if (!uris.ok) return { is: 'wrong', reason: uris.error };
    return { is: 'good', redirectUris: uris.value, keepMs: keepMsOf(headers.get('cache-control') ?? '') };
  } catch (error) {
    return { is: 'away', reason: fetchFault(error) };
  }
}

const JSON_TYPE = /^application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i;

/** Returns how long to cache a document (RFC 9111 §5.2.2). */
function keepMsOf(cacheControl: string): number {
  if (/(?:^|[,\s])no-store(?:[,\s]|$)/i.test(cacheControl)) return KEPT_MS_MIN;
  const [, seconds] = /(?:^|[,\s])max-age="?(\d+)/i.exec(cacheControl) ?? [];
  return seconds === undefined ? KEPT_MS : Math.min(KEPT_MS_MAX, Math.max(KEPT_MS_MIN, Number(seconds) * 1000));
}
