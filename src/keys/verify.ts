// Verifies a presented key: shape, hash, record (from memory while it may be trusted), status, last use.

import type { KeyRefusal, Problem } from '../ground/problem.ts';
import { type Awaitable, ok, type Result, StoreOutage } from '../ground/result.ts';
import type { Clock, Sha256 } from '../ground/runtime.ts';
import type { Usage } from '../uses/usage.ts';
import type { Log } from '../watch/log.ts';
import type { Caller, OriginOf } from './actor.ts';
import type { Feed } from './feed.ts';
import { createKeyCache, type FirstUse, type KnownKey } from './key-cache.ts';
import { type Audience, fingerprintOf, hashKey, isKeyShaped, refusalAt } from './record.ts';
import type { KeyStore } from './store.ts';
import type { ReadKeys, UnknownKeys } from './unknown-keys.ts';

/** Who is behind a verified key: what tools see as `auth`. */
export interface KeyIdentity {
  readonly subject: string;
  readonly keyId: string;
  readonly keyName: string;
  readonly scopes: readonly string[];
  readonly createdAtMs: number;
  /** Null: never. */
  readonly expiresAtMs: number | null;
  /** The one server that the key is good for; null: any. */
  readonly resource: string | null;
  readonly token: string;
}

/** `verifiedAtMs`, monotonic: changes after it were not looked at. */
export type Verified =
  | { readonly ok: true; readonly value: KeyIdentity; readonly verifiedAtMs: number }
  | { readonly ok: false; readonly error: Problem };

/**
 * `use`: a call; its last use is noted. `confirm`: the same call once more, before its success leaves. `pasting`: a
 * person hands the key to a page; noted too. `look`: notes nothing. The last two complete no rotation.
 */
type Purpose = 'use' | 'confirm' | 'pasting' | 'look';

interface Presented {
  readonly token: string;
  readonly keyHash: string;
  readonly caller: Caller;
  readonly purpose: Purpose;
}

export type Verifier = ReturnType<typeof createVerifier>;

export function createVerifier(options: {
  readonly store: Pick<KeyStore, 'promote'>;
  readonly feed: Feed;
  readonly usage: Pick<Usage, 'note'>;
  readonly readKeys: ReadKeys;
  readonly unknownKeys: UnknownKeys;
  readonly audience: Audience;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly originOf: OriginOf;
}) {
  const { store, feed, usage, clock, sha256, log, originOf, readKeys, unknownKeys, audience } = options;
  const cache = createKeyCache(feed, clock);
  let reads = 0;

  function decide(token: string, caller: Caller, purpose: Purpose): Awaitable<Verified> {
    if (!isKeyShaped(token)) return refusal({ reason: 'malformed' });
    const presented = { token, keyHash: hashKey(sha256, token), caller, purpose };
    const nowMs = clock.monotonicMs();
    if (feed.current(nowMs)) return decideNow(presented, nowMs);
    return feed.ensureFresh().then(() => decideNow(presented, clock.monotonicMs()));
  }

  function decideNow(presented: Presented, nowMs: number): Awaitable<Verified> {
    const { polledAtMs } = feed;
    const known = cache.recall(presented.keyHash, nowMs);
    if (known !== undefined) return decideOn(known, presented, polledAtMs);
    return read(presented).then((found) => (found.ok ? decideOn(found.value, presented, polledAtMs) : found));
  }

  function decideOn(key: KnownKey | null, presented: Presented, verifiedAtMs: number): Awaitable<Verified> {
    if (isFirstUse(key, presented)) return useFirst(key, presented);
    const evaluated = evaluate(key, presented, verifiedAtMs);
    if (!evaluated.ok && key !== null && !cache.isUsable(key)) cache.drop(presented.keyHash, key); // it has expired
    return evaluated;
  }

  const isFirstUse = (key: KnownKey | null, { caller, purpose }: Presented): key is KnownKey =>
    key?.presented === 'next' &&
    cache.isUsable(key) &&
    audience.admits(key.resource, caller.resources) &&
    (purpose === 'use' || purpose === 'confirm');

  const read = ({ keyHash, caller }: Presented): Promise<Result<KnownKey | null, Problem>> =>
    cache.reads.run(keyHash, async () => {
      // A key that was good a moment ago takes from no bucket.
      if (cache.isStale(keyHash)) return ok(await readAgain(keyHash, true));
      const found = await unknownKeys.find(keyHash, caller);
      return found.ok ? ok(cache.keep(keyHash, found.value)) : found;
    });

  async function readAgain(keyHash: string, near: boolean): Promise<KnownKey | null> {
    reads += 1;
    const found = await readKeys([keyHash], { near });
    return cache.keep(keyHash, found(keyHash));
  }

  /** Puts a next secret in force before it is accepted. Concurrent first uses share one write. */
  async function useFirst(key: KnownKey, presented: Presented): Promise<Verified> {
    const { found, polledAtMs } = await cache.firstUses.run(presented.keyHash, () => promote(key, presented));
    if (found?.presented === 'next' && cache.isUsable(found)) {
      throw new StoreOutage('the first use of a secret could not be noted'); // the record was changed by hand meanwhile
    }
    return evaluate(found, presented, polledAtMs);
  }

  async function promote(key: KnownKey, { keyHash, caller }: Presented): Promise<FirstUse> {
    const promoted = await store.promote(key, clock.nowMs(), originOf('use', caller));
    await feed.refresh();
    const { polledAtMs } = feed; // before the read: a poll that comes after it proves nothing of it
    const found = await readAgain(keyHash, false); // a replica may not have it yet
    if (promoted !== null) {
      const { requestId, traceId } = caller;
      const { id: keyId, userId } = key;
      const fingerprint = fingerprintOf(keyHash);
      log.info('API key rotation completed', { requestId, traceId, keyId, userId, fingerprint });
    }
    return { found, polledAtMs };
  }

  function evaluate(key: KnownKey | null, { token, caller, purpose }: Presented, verifiedAtMs: number): Verified {
    if (key === null) return refusal({ reason: 'unknown' });
    const nowMs = clock.nowMs();
    const { userId, id, name, scopes, createdAtMs, expiresAtMs, resource } = key;
    const isMeant = audience.admits(resource, caller.resources);
    const reason = refusalAt(key, nowMs) ?? (isMeant ? null : 'other resource');
    if (reason !== null) return refusal({ reason, keyId: id, userId, fingerprint: fingerprintOf(key.keyHash) });
    if (purpose === 'use' || purpose === 'pasting') usage.note(key, nowMs);
    const value = { subject: userId, keyId: id, keyName: name, scopes, createdAtMs, expiresAtMs, resource, token };
    return { ok: true, value, verifiedAtMs };
  }

  return {
    /**
     * Decides on a presented key, and notes its use. A known key costs no read and no write while the feed is current,
     * but the first use of a next secret is written first, durably. The caller's address is asked for only if the store
     * is.
     */
    verify: (token: string, caller: Caller) => decide(token, caller, 'use'),
    /** As `verify`, of a key whose use is noted already. */
    confirm: (token: string, caller: Caller) => decide(token, caller, 'confirm'),
    /** As `verify`, of a key that somebody pastes into a page: it completes no rotation. */
    paste: (token: string, caller: Caller) => decide(token, caller, 'pasting'),
    /** As `paste`, but notes nothing. */
    look: (token: string, caller: Caller) => decide(token, caller, 'look'),
    /** How often the store was read. */
    get reads() {
      return reads + unknownKeys.reads;
    },
  };
}

const refusal = (found: { reason: KeyRefusal; keyId?: string; userId?: string; fingerprint?: string }): Verified => ({
  ok: false,
  error: { code: 'invalid_api_key', ...found },
});
