// Ends leaked secrets for anyone who has them: possession is proof enough, because less harm can be done with this than
// with the secret itself. The secret in force ends its key; the next or the previous one of a rotation only itself.

import type { Problem } from '../ground/problem.ts';
import { ok, type Result } from '../ground/result.ts';
import type { Clock, Sha256 } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { Caller, OriginOf } from './actor.ts';
import { fingerprintOf, hashKey, isKeyShaped, type PresentedKey } from './record.ts';
import type { KeyStore } from './store.ts';
import type { UnknownKeys } from './unknown-keys.ts';

/** Ends those texts that are secrets of keys, and ignores the others. An error: it may not have happened. */
export function createRevokeSecrets(options: {
  readonly store: Pick<KeyStore, 'revokeByHashes'>;
  /** Of the primary: no replica's word that a key has ended will do. */
  readonly unknownKeys: UnknownKeys;
  /** Makes the change known to this process before the response. */
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly originOf: OriginOf;
}) {
  const { store, unknownKeys, refresh, clock, sha256, log, originOf } = options;
  return async (texts: readonly string[], caller: Caller): Promise<Result<void, Problem>> => {
    const hashes = [...new Set(texts.filter(isKeyShaped).map((text) => hashKey(sha256, text)))];
    if (hashes.length === 0) return ok(undefined);
    const found = await Promise.all(hashes.map((hash) => unknownKeys.find(hash, caller)));
    const nowMs = clock.nowMs();
    const keys: PresentedKey[] = [];
    for (const one of found) {
      if (!one.ok) return one;
      const { record } = one.value;
      if (record !== null && canEnd(record, nowMs)) keys.push(record);
    }
    const [first] = keys;
    if (first === undefined) return ok(undefined);
    await store.revokeByHashes(hashes, nowMs, originOf('possession', caller), first.userId);
    await refresh();
    for (const { id: keyId, userId, keyHash, presented } of keys) {
      const fingerprint = fingerprintOf(keyHash);
      log.info('API key revoked', { requestId: caller.requestId, keyId, userId, fingerprint, possessed: presented });
    }
    return ok(undefined);
  };
}

/** An expired key can still be ended, and so can one of a blocked owner, which would be good again after the block. */
const canEnd = ({ active, secretEndsAtMs }: PresentedKey, nowMs: number): boolean =>
  active && (secretEndsAtMs === null || secretEndsAtMs >= nowMs);
