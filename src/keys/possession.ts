// Ends leaked secrets for anyone who has them: possession is proof enough, because less harm can be done with this than
// with the secret itself. The secret in force ends its key; the next or the previous one of a rotation ends only itself.

import { networkOf } from '../lib/ip.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Clock, Sha256 } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';
import type { Caller, OriginOf } from './actor.ts';
import { createJointReads } from './joint-reads.ts';
import { hashKey, isKeyShaped } from './key-format.ts';
import { type LookupLimit, tooManyUnknown } from './lookup-limit.ts';
import { type Found, fingerprintOf, type KeyStore, type PresentedKey } from './record.ts';

export interface PossessionOptions {
  readonly store: KeyStore;
  readonly lookups: LookupLimit;
  /** Makes the change known to this process before the response. */
  readonly refresh: () => Promise<void>;
  readonly readWithinMs: number;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly originOf: OriginOf;
}

/** Ends all of these texts that are secrets of keys, or, if it can't be confirmed, says so. Others mean nothing. */
export type RevokeSecrets = (texts: readonly string[], caller: Caller) => Promise<Result<void, Problem>>;

export function createRevokeSecrets(options: PossessionOptions): RevokeSecrets {
  const { store, lookups, refresh, readWithinMs, clock, sha256, log, originOf } = options;

  function unavailable(problem: StoreUnavailable, { requestId }: Caller): Result<never, Problem> {
    log.warn('key store out of reach', { requestId, reason: problem.reason });
    return err(problem);
  }

  const joint = createJointReads(async (hashes) => {
    const found = await store.findByHashes(hashes, readWithinMs);
    return (hash): Result<Found, StoreUnavailable> => (found.ok ? ok(found.value(hash)) : found);
  });

  /** Those of the keys that can be ended. Beyond the budget, those that come back as they were told are looked up too. */
  async function find(hashes: readonly string[], caller: Caller): Promise<Result<readonly PresentedKey[], Problem>> {
    const source = networkOf(caller.clientAddress());
    const asker = { source, requestId: caller.requestId };
    const waitS = lookups.takeAll(source, hashes.length);
    if (waitS > 0 && !lookups.cameBack(hashes)) return tooManyUnknown(log, asker, waitS);
    const known: PresentedKey[] = [];
    for (const found of await Promise.all(hashes.map((hash) => joint.read(source, hash)))) {
      if (!found?.ok) {
        if (waitS === 0) lookups.refund(source, hashes.length);
        else for (const hash of hashes) lookups.refuse(hash);
        return found === null ? tooManyUnknown(log, asker, 1) : unavailable(found.error, caller);
      }
      const { record } = found.value;
      if (record !== null && canEnd(record, clock.nowMs())) known.push(record);
    }
    if (waitS === 0) lookups.refund(source, known.length);
    return ok(known);
  }

  return async (texts, caller) => {
    const hashes = [...new Set(texts.filter(isKeyShaped).map((text) => hashKey(sha256, text)))];
    if (hashes.length === 0) return ok(undefined);
    const found = await find(hashes, caller);
    if (!found.ok) return found;
    const known = found.value;
    if (known.length === 0) return ok(undefined);
    const nowMs = clock.nowMs();
    const ended = await store.revokeByHashes(hashes, nowMs, originOf('possession', caller));
    if (!ended.ok) return unavailable(ended.error, caller);
    await refresh();
    for (const { id: keyId, userId, keyHash, presented } of known) {
      const fingerprint = fingerprintOf(keyHash);
      log.info('API key revoked', { requestId: caller.requestId, keyId, userId, fingerprint, possessed: presented });
    }
    return ok(undefined);
  };
}

/** An expired key can still be ended, and so can one of a blocked owner, which would be good again after the block. */
const canEnd = ({ active, secretEndsAtMs }: PresentedKey, nowMs: number): boolean =>
  active && (secretEndsAtMs === null || secretEndsAtMs >= nowMs);
