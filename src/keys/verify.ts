// Verifies a presented key: shape, hash, record (from memory while it may be trusted), status, last use.

import type { Clock, Sha256 } from '../clock.ts';
import type { Log } from '../log.ts';
import { type Awaitable, chain, err, ok, type Problem, type Result } from '../problem.ts';
import { createRecent } from '../recent.ts';
import { createFeed, type Feed } from './feed.ts';
import { createJointReads } from './joint-reads.ts';
import { hashKey, isKeyShaped } from './key-format.ts';
import { type LastUsed, type TrackedKey, track } from './last-used.ts';
import { type Admission, createMissBudget, networkOf } from './miss-budget.ts';
import type { Found, KeyStore } from './record.ts';
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
 * unknown one, its faster refusal would tell that it once was a key. It is short because a record may be restored from
 * a backup.
 */
const REFUSED_FOR_MS = 1000;
/** Refused keys remembered, about 10 MB. A forgotten one costs a read. */
const REFUSED_MAX = 20_000;

/** Records of usable keys in memory. The bytes are an estimate: strings at one byte a character, plus overhead. */
const CACHE_ENTRIES_MAX = 200_000;
const CACHE_BYTES_MAX = 64 * 1024 * 1024;
/** What a record takes beside its texts: object, array, two map slots. Measured on Bun at about 400 bytes. */
const RECORD_OVERHEAD_BYTES = 400;

interface Refused {
  readonly key: FoundKey;
  /** Monotonic. */
  readonly untilMs: number;
}

/** Null: unknown. */
type FoundKey = TrackedKey | null;

const TOO_MANY_UNKNOWN: Result<never, Problem> = err({ code: 'rate_limited', retryAfterS: 1 });

export interface Verifier {
  /**
   * Decides on a presented key, and notes its use. A known key costs no read and no write while the feed is current.
   * `source` gives the caller's address; it is called only when the store may have to be asked.
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
  // Keyed by hash: usable keys, and refused ones.
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
      reading.delete(keyHash); // a read under way may predate the change: later callers read again
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
    return reading.get(keyHash) ?? readWithinBudget(keyHash, networkOf(source()));
  }

  function isUsable(key: FoundKey): key is TrackedKey {
    return key !== null && refusalAt(key.record, clock.nowMs()) === null;
  }

  function refuseFromNowOn(keyHash: string, key: FoundKey): void {
    cache.delete(keyHash);
    refused.set(keyHash, { key, untilMs: clock.monotonicMs() + REFUSED_FOR_MS });
  }

  const readWithinBudget = (keyHash: string, network: string): Awaitable<Result<FoundKey, Problem>> =>
    chain(budget.admit(network, keyHash), (admission) => readAdmitted(admission, keyHash, network));

  function readAdmitted(admission: Admission, keyHash: string, network: string): Awaitable<Result<FoundKey, Problem>> {
    if (admission === 'refused') return TOO_MANY_UNKNOWN;
    // Concurrent look-ups of one hash share one read, and are answered in the order they came.
    const shared = reading.get(keyHash);
    if (shared !== undefined) {
      if (admission === 'alone') budget.giveBack(network);
      return shared;
    }
    const found = admission === 'alone' ? readAlone(keyHash, network) : readTogether(keyHash, network);
    const read = found.finally(() => {
      if (reading.get(keyHash) === read) reading.delete(keyHash);
    });
    reading.set(keyHash, read);
    return read;
  }

  async function readAlone(keyHash: string, network: string): Promise<Result<FoundKey, Problem>> {
    counts.reads += 1;
    const found = await store.findByHash(keyHash, feed.position, feed.askWithinMs);
    const key = found.ok ? ok(keep(keyHash, found.value)) : found;
    if (!key.ok || isUsable(key.value)) budget.giveBack(network);
    return key;
  }

  const joint = createJointReads(async (keyHashes) => {
    counts.reads += 1;
    const found = await store.findByHashes(keyHashes, feed.askWithinMs);
    return (keyHash): Result<FoundKey, Problem> => (found.ok ? ok(keep(keyHash, found.value(keyHash))) : found);
  });

  async function readTogether(keyHash: string, network: string): Promise<Result<FoundKey, Problem>> {
    const key = await joint.read(network, keyHash);
    if (key === null || !key.ok) budget.refuse(keyHash);
    return key ?? TOO_MANY_UNKNOWN;
  }

  function keep(keyHash: string, { record, position }: Found): FoundKey {
    // The answer is right for everyone who asked before it came. It is kept only if the feed will still report every
    // change after it: a feed that is already ahead of the read may have reported one.
    const keeps = position.databaseId === feed.position.databaseId && position.seq >= feed.position.seq;
    const key = record && track(record);
    if (!isUsable(key)) refuseFromNowOn(keyHash, key);
    else if (keeps) cache.set(keyHash, key);
    return key;
  }

  return { verify, feed, counts };
}

function estimateBytes({ record }: TrackedKey): number {
  let chars = record.id.length + record.userId.length + record.name.length + record.keyHash.length;
  for (const scope of record.scopes) chars += scope.length + 16;
  return chars + RECORD_OVERHEAD_BYTES;
}
