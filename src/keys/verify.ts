// Verifies a presented key: shape, hash, record (from memory while it may be trusted), status, last use.

import { networkOf } from '../lib/ip.ts';
import { createLruCache } from '../lib/lru-cache.ts';
import { type Awaitable, chain, ok, type Result } from '../lib/result.ts';
import type { Clock, Sha256 } from '../lib/runtime.ts';
import { singleFlights } from '../lib/single-flight.ts';
import type { Log } from '../log/log.ts';
import type { KeyRefusal, Problem } from '../problem.ts';
import type { Caller, OriginOf } from './actor.ts';
import type { Feed } from './feed.ts';
import { createJointReads } from './joint-reads.ts';
import { hashKey, isKeyShaped } from './key-format.ts';
import { type LastUsed, type TrackedKey, track } from './last-used.ts';
import { type Admission, type Asker, type LookupLimit, tooManyUnknown } from './lookup-limit.ts';
import { type Found, fingerprintOf, type KeyStore, ownerIn, type PresentedKey, refusalAt } from './record.ts';

/** Who is behind a verified key: what tools see as `auth`. */
export interface KeyIdentity {
  readonly subject: string;
  readonly keyId: string;
  readonly keyName: string;
  readonly scopes: readonly string[];
  readonly createdAtMs: number;
  /** Null: never. */
  readonly expiresAtMs: number | null;
  readonly token: string;
}

/**
 * How long a key is refused from memory (negative cache). The same for every reason: if a revoked key were remembered longer than an
 * unknown one, its faster refusal would tell that it once was a key. It is short because a record may be restored from
 * a backup.
 */
const REFUSED_TTL_MS = 1000;
/** Refused keys remembered, about 10 MB. A forgotten one costs a read. */
const REFUSED_MAX = 20_000;

/** Records of usable keys in memory. The bytes are an estimate: strings at one byte a character, plus overhead. */
const CACHE_ENTRIES_MAX = 200_000;
const CACHE_BYTES_MAX = 64 * 1024 * 1024;
/** What a record takes beside its texts: object, array, two map slots. Measured on Bun at about 400 bytes. */
const RECORD_OVERHEAD_BYTES = 400;
/**
 * After this long a record is read again, so that nothing is believed for ever: the feed says nothing of keys whose
 * creation a primary has lost. Up to a fifth less, so that what was read together isn't all read again together.
 */
const BELIEVED_MS_MAX = 5 * 60_000;
const BELIEVED_MS_MIN = 4 * 60_000;

interface Refused {
  readonly key: FoundKey;
  /** Monotonic. */
  readonly untilMs: number;
}

interface KnownKey extends TrackedKey {
  readonly record: PresentedKey;
  /** Monotonic. */
  readonly believedUntilMs: number;
}

/** Null: unknown. */
type FoundKey = KnownKey | null;

/** What a presented key is worth. `freshAsOfMs`, monotonic: no later change was looked at. */
export type Verified =
  | { readonly ok: true; readonly value: KeyIdentity; readonly freshAsOfMs: number }
  | { readonly ok: false; readonly error: Problem };

/**
 * What a key is verified for: a use, which is noted; a second look at one; its pasting into a page, which is noted too, but
 * uses it for nothing; or a look that leaves no trace. The last two complete no rotation.
 */
type Purpose = 'use' | 'confirm' | 'pasting' | 'look';

/** A verification under way. */
interface Asked {
  readonly token: string;
  readonly keyHash: string;
  readonly caller: Caller;
  readonly purpose: Purpose;
  readonly freshAsOfMs: number;
}

/** The record was changed by hand meanwhile. */
const FIRST_USE_UNKNOWN: Verified = {
  ok: false,
  error: { code: 'store_unavailable', reason: 'the first use of a secret could not be noted' },
};

export interface Verifier {
  /**
   * Decides on a presented key, and notes its use. A known key costs no read and no write while the feed is current; but
   * the first use of a next secret puts it in force, durably, before it is accepted. The caller's address is asked for
   * only when the store may have to be asked.
   */
  verify(token: string, caller: Caller): Awaitable<Verified>;
  /** Decides anew on a key whose use is noted already. */
  confirm(token: string, caller: Caller): Awaitable<Verified>;
  /** Decides on a key that somebody pastes into a page: noted, but no use. */
  paste(token: string, caller: Caller): Awaitable<Verified>;
  /** Decides on a key and notes nothing. */
  look(token: string, caller: Caller): Awaitable<Verified>;
  /** How often the store was read. */
  readonly reads: number;
}

export interface VerifierOptions {
  readonly store: KeyStore;
  readonly feed: Feed;
  readonly lastUsed: LastUsed;
  readonly lookups: LookupLimit;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly originOf: OriginOf;
}

export function createVerifier(options: VerifierOptions): Verifier {
  const { store, feed, lastUsed, clock, sha256, log, originOf, lookups: budget } = options;
  // Keyed by hash: usable keys, and a negative cache of refused ones.
  const cache = createLruCache<KnownKey>({
    entries: CACHE_ENTRIES_MAX,
    bytes: CACHE_BYTES_MAX,
    bytesOf: estimateBytes,
  });
  const negativeCache = createLruCache<Refused>({ entries: REFUSED_MAX });
  const pendingReads = singleFlights<Result<FoundKey, Problem>>();
  let reads = 0;

  feed.subscribe({
    onChanges(changed) {
      const owners = new Set<string>();
      for (const keyHash of changed) {
        const owner = ownerIn(keyHash);
        if (owner !== null) owners.add(owner);
        cache.delete(keyHash);
        negativeCache.delete(keyHash);
        pendingReads.forget(keyHash); // a read under way may predate the change: later callers read again
      }
      if (owners.size > 0) forgetOwners(owners);
    },
    onReset() {
      cache.clear();
      negativeCache.clear();
      pendingReads.forgetAll();
    },
  });

  /** One walk for all: with 200,000 keys it takes 10 ms. */
  function forgetOwners(owners: ReadonlySet<string>): void {
    cache.deleteWhere(({ record }) => owners.has(record.userId));
    negativeCache.deleteWhere(({ key }) => key !== null && owners.has(key.record.userId));
    pendingReads.forgetAll();
  }

  function decide(token: string, caller: Caller, purpose: Purpose): Awaitable<Verified> {
    if (!isKeyShaped(token)) return refusal({ reason: 'malformed' });
    const keyHash = hashKey(sha256, token);
    const nowMs = clock.monotonicMs();
    return feed.current(nowMs)
      ? decideNow(token, keyHash, caller, purpose, nowMs)
      : decideLater(token, keyHash, caller, purpose);
  }

  const decideLater = (token: string, keyHash: string, caller: Caller, purpose: Purpose) =>
    feed
      .ensureFresh()
      .then(
        (current): Awaitable<Verified> =>
          current.ok ? decideNow(token, keyHash, caller, purpose, clock.monotonicMs()) : current,
      );

  function decideNow(
    token: string,
    keyHash: string,
    caller: Caller,
    purpose: Purpose,
    nowMs: number,
  ): Awaitable<Verified> {
    const { freshAsOfMs } = feed;
    const cached = cache.get(keyHash);
    if (cached !== undefined && (nowMs < cached.believedUntilMs || !isUsable(cached))) {
      if (isFirstUse(cached, purpose)) return useFirst(cached, { token, keyHash, caller, purpose, freshAsOfMs });
      const evaluated = evaluate(token, cached, purpose, freshAsOfMs);
      if (!evaluated.ok) rememberRefusal(keyHash, cached); // it has expired
      return evaluated;
    }
    // A key that was good a moment ago is read again without taking from a budget.
    const found = cached === undefined ? lookUp(keyHash, caller) : pendingReads.run(keyHash, () => readRecord(keyHash));
    return chain(found, evaluateFound, { token, keyHash, caller, purpose, freshAsOfMs });
  }

  function evaluateFound(found: Result<FoundKey, Problem>, asked: Asked): Awaitable<Verified> {
    if (!found.ok) return found;
    const key = found.value;
    if (isFirstUse(key, asked.purpose)) return useFirst(key, asked);
    return evaluate(asked.token, key, asked.purpose, asked.freshAsOfMs);
  }

  /** Puts a next secret in force before it is accepted. Of those who use it at the same time one does it for all. */
  async function useFirst(key: KnownKey, { token, keyHash, caller, purpose }: Asked): Promise<Verified> {
    const promoted = await pendingReads.run(`first use ${keyHash}`, () => promote(key, keyHash, caller));
    if (!promoted.ok) return promoted;
    const found = promoted.value;
    if (found?.record.presented === 'next' && isUsable(found)) return FIRST_USE_UNKNOWN;
    return evaluate(token, found, purpose, feed.freshAsOfMs);
  }

  async function promote(key: KnownKey, keyHash: string, caller: Caller): Promise<Result<FoundKey, Problem>> {
    const promoted = await store.promote(key.record, clock.nowMs(), originOf('use', caller));
    if (!promoted.ok) return promoted;
    await feed.refresh();
    reads += 1;
    const found = await store.findByHashes([keyHash], feed.queryTimeoutMs); // a replica may not have it yet
    if (!found.ok) return found;
    const { id: keyId, userId } = key.record;
    if (promoted.value) {
      const { requestId, traceId } = caller;
      log.info('API key rotation completed', {
        requestId,
        traceId,
        keyId,
        userId,
        fingerprint: fingerprintOf(keyHash),
      });
    }
    return ok(keep(keyHash, found.value(keyHash)));
  }

  function evaluate(token: string, key: FoundKey, purpose: Purpose, freshAsOfMs: number): Verified {
    if (key === null) return refusal({ reason: 'unknown' });
    const nowMs = clock.nowMs();
    const reason = refusalAt(key.record, nowMs);
    const { userId, id, name, scopes, createdAtMs, expiresAtMs } = key.record;
    if (reason !== null) return refusal({ reason, keyId: id, userId, fingerprint: fingerprintOf(key.record.keyHash) });
    if (purpose === 'use' || purpose === 'pasting') lastUsed.note(key, nowMs);
    const value = { subject: userId, keyId: id, keyName: name, scopes, createdAtMs, expiresAtMs, token };
    return { ok: true, value, freshAsOfMs };
  }

  function lookUp(keyHash: string, caller: Caller): Awaitable<Result<FoundKey, Problem>> {
    const known = negativeCache.get(keyHash);
    if (known !== undefined) {
      if (clock.monotonicMs() < known.untilMs && !isUsable(known.key)) {
        return ok(known.key);
      }
      negativeCache.delete(keyHash);
    }
    return (
      pendingReads.underWay(keyHash) ??
      readWithinBudget(keyHash, {
        source: caller.lookupSource ?? networkOf(caller.clientAddress()),
        requestId: caller.requestId,
      })
    );
  }

  const isFirstUse = (key: FoundKey, purpose: Purpose): key is KnownKey =>
    key?.record.presented === 'next' && isUsable(key) && (purpose === 'use' || purpose === 'confirm');

  function isUsable(key: FoundKey): key is KnownKey {
    return key !== null && refusalAt(key.record, clock.nowMs()) === null;
  }

  function rememberRefusal(keyHash: string, key: FoundKey): void {
    cache.delete(keyHash);
    negativeCache.set(keyHash, { key, untilMs: clock.monotonicMs() + REFUSED_TTL_MS });
  }

  const readWithinBudget = (keyHash: string, asker: Asker): Awaitable<Result<FoundKey, Problem>> =>
    chain(budget.admit(asker.source, keyHash), (admission) => readAdmitted(admission, keyHash, asker));

  function readAdmitted(admission: Admission, keyHash: string, asker: Asker): Awaitable<Result<FoundKey, Problem>> {
    if (admission === 'refused') return tooManyUnknown(log, asker, 1);
    if (admission === 'alone' && pendingReads.underWay(keyHash) !== undefined) budget.refund(asker.source);
    return pendingReads.run(keyHash, () =>
      admission === 'alone' ? readAlone(keyHash, asker) : readTogether(keyHash, asker),
    );
  }

  async function readRecord(keyHash: string): Promise<Result<FoundKey, Problem>> {
    reads += 1;
    const found = await store.findByHash(keyHash, feed.position, feed.queryTimeoutMs);
    return found.ok ? ok(keep(keyHash, found.value)) : found;
  }

  async function readAlone(keyHash: string, { source }: Asker): Promise<Result<FoundKey, Problem>> {
    const key = await readRecord(keyHash);
    if (!key.ok || isUsable(key.value)) budget.refund(source);
    return key;
  }

  const joint = createJointReads(async (keyHashes) => {
    reads += 1;
    const found = await store.findByHashes(keyHashes, feed.queryTimeoutMs);
    return (keyHash): Result<FoundKey, Problem> => (found.ok ? ok(keep(keyHash, found.value(keyHash))) : found);
  });

  async function readTogether(keyHash: string, asker: Asker): Promise<Result<FoundKey, Problem>> {
    const key = await joint.read(asker.source, keyHash);
    if (key === null || !key.ok) budget.refuse(keyHash);
    return key ?? tooManyUnknown(log, asker, 1);
  }

  function keep(keyHash: string, { record, position }: Found): FoundKey {
    // The response is right for everyone who asked before it came. It is kept only if the feed will still report every
    // change after it: a feed that is already ahead of the read may have reported one.
    const keeps = position.databaseId === feed.position.databaseId && position.seq >= feed.position.seq;
    const key = record && { ...track(record), record, believedUntilMs: clock.monotonicMs() + believedForMs() };
    if (!isUsable(key)) rememberRefusal(keyHash, key);
    else if (keeps) cache.set(keyHash, key);
    return key;
  }

  return {
    verify: (token, caller) => decide(token, caller, 'use'),
    confirm: (token, caller) => decide(token, caller, 'confirm'),
    paste: (token, caller) => decide(token, caller, 'pasting'),
    look: (token, caller) => decide(token, caller, 'look'),
    get reads() {
      return reads;
    },
  };
}

const refusal = (found: { reason: KeyRefusal; keyId?: string; userId?: string; fingerprint?: string }): Verified => ({
  ok: false,
  error: { code: 'invalid_api_key', ...found },
});

const believedForMs = () => BELIEVED_MS_MIN + Math.random() * (BELIEVED_MS_MAX - BELIEVED_MS_MIN);

function estimateBytes({ record }: TrackedKey): number {
  let chars = record.id.length + record.userId.length + record.name.length + record.keyHash.length;
  for (const scope of record.scopes) chars += scope.length + 16;
  return chars + RECORD_OVERHEAD_BYTES;
}
