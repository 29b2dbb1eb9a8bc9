// Puts a rotated key's new secret in force on its first use: durably written before the secret is accepted.

import { singleFlights } from '../ground/cache.ts';
import { StoreOutage } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { Caller, OriginOf } from './actor.ts';
import type { Feed } from './feed.ts';
import type { KnownKey, KnownKeys } from './known-keys.ts';
import { fingerprintOf } from './record.ts';
import type { KeyStore } from './store.ts';

export interface FirstUsesOptions {
  readonly store: KeyStore;
  readonly feed: Feed;
  readonly clock: Clock;
  readonly log: Log;
  readonly originOf: OriginOf;
}

/** A record read after the first use of its next secret was written. */
interface FirstUse {
  readonly found: KnownKey | null;
  /** When the last poll before that read began (monotonic). */
  readonly polledAtMs: number;
}

/**
 * Creates the function that puts a next secret in force, and returns the key's new state. Concurrent first uses share
 * one write. Throws a StoreOutage if the first use could not be written.
 */
export function createUseFirst({ store, feed, clock, log, originOf }: FirstUsesOptions, known: KnownKeys) {
  const underWay = singleFlights<FirstUse>();
  // Callers after a change of an owner don't join a first use that began before it.
  feed.subscribe({
    onChanges: (_, owners) => void (owners.size > 0 && underWay.forgetAll()),
    onReset: () => underWay.forgetAll(),
  });

  async function promote(key: KnownKey, keyHash: string, caller: Caller): Promise<FirstUse> {
    const promoted = await store.promote(key, clock.nowMs(), originOf('use', caller));
    await feed.refresh();
    const { polledAtMs } = feed; // taken before the read: a later poll proves nothing about what was read
    const found = await known.readAgain(keyHash); // a replica may not have it yet
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
    const first = await underWay.run(keyHash, () => promote(key, keyHash, caller));
    if (first.found?.presented === 'next' && known.isUsable(first.found)) {
      throw new StoreOutage('the first use of a secret could not be noted'); // somebody edited the record by hand
    }
    return first;
  };
}
