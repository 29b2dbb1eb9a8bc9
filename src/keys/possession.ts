// Ends leaked secrets for whoever has them: possession is proof enough, because less harm can be done with this than
// with the secret itself. The secret in force ends its key; the next or the previous one of a rotation ends only itself.

import { networkOf } from '../lib/ip.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Clock, Sha256 } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { Caller } from './actor.ts';
import { hashKey, isKeyShaped } from './key-format.ts';
import { type LookupLimit, tooManyUnknown } from './lookup-limit.ts';
import type { OriginOf } from './origin.ts';
import { fingerprintOf, type KeyStore, type PresentedKey } from './record.ts';

export interface PossessionOptions {
  readonly store: KeyStore;
  readonly lookups: LookupLimit;
  /** Makes the change known to this process before it is answered. */
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

  function unavailable(problem: Problem & { readonly reason: string }, { requestId }: Caller): Result<never, Problem> {
    log.warn('key store out of reach', { requestId, reason: problem.reason });
    return err(problem);
  }

  return async (texts, caller) => {
    const hashes = [...new Set(texts.filter(isKeyShaped).map((text) => hashKey(sha256, text)))];
    if (hashes.length === 0) return ok(undefined);
    const source = networkOf(caller.clientAddress());
    const waitS = lookups.takeAll(source, hashes.length);
    if (waitS > 0) return tooManyUnknown(log, source, waitS);
    const found = await store.findByHashes(hashes, readWithinMs);
    if (!found.ok) return unavailable(found.error, caller);
    const nowMs = clock.nowMs();
    const known = hashes
      .map((hash) => found.value(hash).record)
      .filter((key): key is PresentedKey => key !== null && canEnd(key, nowMs));
    if (known.length === 0) return ok(undefined);
    lookups.refund(source, known.length);
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
