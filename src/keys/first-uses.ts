// The first use of a rotation's next secret: it is written, durably, before the secret is accepted.

import { StoreOutage } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { Caller, OriginOf } from './actor.ts';
import type { Feed } from './feed.ts';
import { type FirstUse, isChild, type KnownKey } from './key-cache.ts';
import type { KnownKeys } from './known-keys.ts';
import { fingerprintOf } from './record.ts';
import type { KeyStore } from './store.ts';

export interface FirstUsesOptions {
  readonly store: Pick<KeyStore, 'promote'>;
  readonly feed: Feed;
  readonly clock: Clock;
  readonly log: Log;
  readonly originOf: OriginOf;
}

/**
 * Creates the function that puts a next secret in force, and returns the key as it is then. Concurrent first uses share
 * one write. Throws a StoreOutage if the use could not be noted.
 */
export function createUseFirst({ store, feed, clock, log, originOf }: FirstUsesOptions, known: KnownKeys) {
  async function promote(key: KnownKey, keyHash: string, caller: Caller): Promise<FirstUse> {
    const promoted = await store.promote(key, clock.nowMs(), originOf('use', caller));
    await feed.refresh();
    const { polledAtMs } = feed; // before the read: a poll that comes after it proves nothing of it
    const read = await known.readAgain(keyHash, false); // a replica may not have it yet
    const found = read !== null && isChild(read) ? null : read; // a hash is of a key or of a child
    if (promoted !== null) {
      const { requestId, traceId } = caller;
      const { id: keyId, userId } = key;
      log.info('API key rotation completed', {
        requestId,
        traceId,
        keyId,
        userId,
        fingerprint: fingerprintOf(keyHash),
      });
    }
    return { found, polledAtMs };
  }

  return async (key: KnownKey, keyHash: string, caller: Caller): Promise<FirstUse> => {
    const first = await known.firstUses.run(keyHash, () => promote(key, keyHash, caller));
    if (first.found?.presented === 'next' && known.isUsable(first.found)) {
      throw new StoreOutage('the first use of a secret could not be noted'); // the record was changed by hand meanwhile
    }
    return first;
  };
}
