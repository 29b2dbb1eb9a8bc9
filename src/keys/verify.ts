// Verifying a presented key: shape, hash, record (from memory where it may be believed), status, last use.

import type { Clock, Sha256 } from '../clock.ts';
import type { Log } from '../log.ts';
import { type Awaitable, chain, err, ok, type Problem, type Result } from '../problem.ts';
import { createRecent } from '../recent.ts';
import { createFeed, type Feed } from './feed.ts';
import { hashKey, isKeyShaped } from './key-format.ts';
import { type LastUsed, type TrackedKey, track } from './last-used.ts';
import { createMissBudget } from './miss-budget.ts';
import type { KeyStore } from './record.ts';
import { refusalAt } from './status.ts';

/** Who is behind a verified key: what tools see as `auth`. */
export interface KeyIdentity {
  readonly subject: string;
  readonly keyId: string;
  readonly keyName: string;
  readonly scopes: readonly string[];
  readonly token: string;
}

/**
 * How long a key is refused from memory. The same for every reason: if a revoked key were remembered longer than an
 * unknown one, its faster refusal would tell that it once was a key. Short: its record may be restored from a backup.
 */
const REFUSED_FOR_MS = 1000;
/** Refused keys remembered, about 10 MB. One that is forgotten costs a read. */
const REFUSED_MAX = 20_000;

/** Records of usable keys in memory. The bytes are an estimate: strings at one byte a character, plus overhead. */
const CACHE_ENTRIES_MAX = 200_000;
const CACHE_BYTES_MAX = 64 * 1024 * 1024;
/** What a record costs beside its texts: object, array, two map slots. Measured on Bun at about 400 bytes. */
const RECORD_OVERHEAD_BYTES = 400;

interface Refused {
  readonly key: FoundKey;
  /** Monotonic. */
  readonly untilMs: number;
}

/** Null: unknown. */
type FoundKey = TrackedKey | null;

export interface Verifier {
  /**
   * Decides over a presented key, and notes its use. No read and no write for a known key while the feed is current.
   * `source`: the caller's address, asked for only when the store has to be.
   */
  verify(token: string, source: () => string): Awaitable<Result<KeyIdentity, Problem>>;
  readonly feed: Feed;
  /** How often memory answered, with a record or with a refusal, and how often the store was read. */
  readonly counts: { hits: number; refusedHits: number; reads: number };
}

export interface VerifierOptions {
  readonly store: KeyStore;
  readonly lastUsed: LastUsed;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly lagMaxMs: number;
}

export function createVerifier({ store, lastUsed, clock, sha256, log, lagMaxMs }: VerifierOptions): Verifier {
  // Both by hash: usable keys, and what was refused.
  const cache = createRecent<TrackedKey>({
    entries: CACHE_ENTRIES_MAX,
    bytes: CACHE_BYTES_MAX,
    bytesOf: estimateBytes,
  });
  const refused = createRecent<Refused>({ entries: REFUSED_MAX });
  const reading = new Map<string, Promise<Result<FoundKey, Problem>>>();
  const budget = createMissBudget(clock);
  const counts = { hits: 0, refusedHits: 0, reads: 0 };

  const feed = createFeed({
    store,
    clock,
    log,
    lagMaxMs,
    onChange(keyHash) {
      cache.delete(keyHash);
      refused.delete(keyHash);
      reading.delete(keyHash); // a read under way may predate the change: who asks from now on reads anew
    },
    onReset() {
      cache.clear();
      refused.clear();
      reading.clear();
    },
  });

  function verify(token: string, source: () => string): Awaitable<Result<KeyIdentity, Problem>> {
    if (!isKeyShaped(token)) return err({ code: 'invalid_api_key', reason: 'malformed' });
    const keyHash = hashKey(sha256, token);
    return feed.current() ? decide(token, keyHash, source) : decideLater(token, keyHash, source);
  }

  const decideLater = (token: string, keyHash: string, source: () => string) =>
    feed.ensureCurrent().then((current) => (current.ok ? decide(token, keyHash, source) : current));

  function decide(token: string, keyHash: string, source: () => string): Awaitable<Result<KeyIdentity, Problem>> {
    const cached = cache.get(keyHash);
    if (cached !== undefined) {
      counts.hits += 1;
      const judged = judge(token, cached);
      if (!judged.ok) refuseFromNowOn(keyHash, cached); // it has expired
      return judged;
    }
    return chain(lookUp(keyHash, source), judgeFound, token);
  }

  const judgeFound = (found: Result<FoundKey, Problem>, token: string) =>
    found.ok ? judge(token, found.value) : found;

  function judge(token: string, key: FoundKey): Result<KeyIdentity, Problem> {
    if (key === null) return err({ code: 'invalid_api_key', reason: 'unknown' });
    const nowMs = clock.nowMs();
    const refusal = refusalAt(key.record, nowMs);
    const { userId, id, name, scopes } = key.record;
    if (refusal !== null) return err({ code: 'invalid_api_key', reason: refusal, keyId: id, userId });
    lastUsed.note(key, nowMs);
    return ok({ subject: userId, keyId: id, keyName: name, scopes, token });
  }

  function lookUp(keyHash: string, source: () => string): Awaitable<Result<FoundKey, Problem>> {
    const known = refused.get(keyHash);
    if (known !== undefined) {
      if (clock.monotonicMs() < known.untilMs && !isUsable(known.key)) {
        counts.refusedHits += 1;
        return ok(known.key);
      }
      refused.delete(keyHash);
    }
    return reading.get(keyHash) ?? readWithinBudget(keyHash, source());
  }

  function isUsable(key: FoundKey): key is TrackedKey {
    return key !== null && refusalAt(key.record, clock.nowMs()) === null;
  }

  function refuseFromNowOn(keyHash: string, key: FoundKey): void {
    cache.delete(keyHash);
    refused.set(keyHash, { key, untilMs: clock.monotonicMs() + REFUSED_FOR_MS });
  }

  function readWithinBudget(keyHash: string, address: string): Awaitable<Result<FoundKey, Problem>> {
    return chain(
      budget.take(address, keyHash),
      (taken): Awaitable<Result<FoundKey, Problem>> => (taken.ok ? readOnce(keyHash, address) : taken),
    );
  }

  /** Concurrent look-ups of one hash share one read, and come back in the order they came. */
  function readOnce(keyHash: string, address: string): Promise<Result<FoundKey, Problem>> {
    const shared = reading.get(keyHash);
    if (shared !== undefined) {
      budget.giveBack(address);
      return shared;
    }
    const read = readRecord(keyHash)
      .then((found) => {
        if (!found.ok || isUsable(found.value)) budget.giveBack(address);
        return found;
      })
      .finally(() => {
        if (reading.get(keyHash) === read) reading.delete(keyHash);
      });
    reading.set(keyHash, read);
    return read;
  }

  async function readRecord(keyHash: string): Promise<Result<FoundKey, Problem>> {
    counts.reads += 1;
    const found = await store.findByHash(keyHash, feed.position, feed.askWithinMs);
    if (!found.ok) return found;
    const { record, position } = found.value;
    // The answer is right for whoever asked before it came. It is kept only if the feed will tell of every change after
    // it: a feed that is ahead of the read already may have told of one.
    const keeps = position.databaseId === feed.position.databaseId && position.seq >= feed.position.seq;
    const key = record && track(record);
    if (!isUsable(key)) refuseFromNowOn(keyHash, key);
    else if (keeps) cache.set(keyHash, key);
    return ok(key);
  }

  return { verify, feed, counts };
}

function estimateBytes({ record }: TrackedKey): number {
  let chars = record.id.length + record.userId.length + record.name.length + record.keyHash.length;
  for (const scope of record.scopes) chars += scope.length + 16;
  return chars + RECORD_OVERHEAD_BYTES;
}
