// Ends leaked secrets for anyone who has them: possession is proof enough, because less harm can be done with this than
// with the secret itself. The secret in force ends its key; the next or the previous one of a rotation ends only itself.

import { err, ok, type Result } from '../lib/result.ts';
import type { Clock, Sha256 } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';
import { type Caller, logOutOfReach, type OriginOf } from './actor.ts';
import { hashKey, isKeyShaped } from './key-format.ts';
import { fingerprintOf, type PresentedKey } from './record.ts';
import type { KeyStore } from './store.ts';
import type { UnknownKeys } from './unknown-keys.ts';

export interface PossessionOptions {
  readonly store: KeyStore;
  readonly unknownKeys: UnknownKeys;
  /** Makes the change known to this process before the response. */
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly originOf: OriginOf;
}

/** Ends all of these texts that are secrets of keys, or, if it can't be confirmed, says so. Others mean nothing. */
export type RevokeSecrets = (texts: readonly string[], caller: Caller) => Promise<Result<void, Problem>>;

export function createRevokeSecrets(options: PossessionOptions): RevokeSecrets {
  const { store, unknownKeys, refresh, clock, sha256, log, originOf } = options;

  function unavailable(problem: StoreUnavailable, caller: Caller): Result<never, Problem> {
    logOutOfReach(log, caller, problem);
    return err(problem);
  }

  /** Those of the keys that can be ended. */
  async function find(hashes: readonly string[], caller: Caller): Promise<Result<readonly PresentedKey[], Problem>> {
    const found = await unknownKeys.findAll(hashes, caller);
    if (!found.ok) return found.error.code === 'store_unavailable' ? unavailable(found.error, caller) : found;
    const known = found.value.flatMap(({ record }) => record ?? []);
    return ok(known.filter((record) => canEnd(record, clock.nowMs())));
  }

  return async (texts, caller) => {
    const hashes = [...new Set(texts.filter(isKeyShaped).map((text) => hashKey(sha256, text)))];
    if (hashes.length === 0) return ok(undefined);
    const found = await find(hashes, caller);
    if (!found.ok) return found;
    const known = found.value;
    if (known.length === 0) return ok(undefined);
    const nowMs = clock.nowMs();
    const ended = await store.revokeByHashes(hashes, nowMs, originOf('possession', caller), known[0]?.userId);
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
