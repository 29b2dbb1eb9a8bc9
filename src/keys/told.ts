// Uses that services have let in from memory, and tell of later: found by the ids of keys, and counted as far as the limits
// that bind them still have room.

import { createLruCache } from '../ground/cache.ts';
import type { Usage } from '../uses/usage.ts';
import type { Feed } from './feed.ts';
import type { KeyStore } from './store.ts';
import type { Verifier } from './verify.ts';

/** Ids whose hashes are remembered, some 4 MB. A forgotten one costs a read. */
const IDS_MAX = 20_000;

export type ToldUses = ReturnType<typeof createToldUses>;

export function createToldUses({
  store,
  feed,
  verifier,
  usage,
}: {
  readonly store: Pick<KeyStore, 'hashesOf'>;
  readonly feed: Pick<Feed, 'queryTimeoutMs'>;
  readonly verifier: Pick<Verifier, 'recall' | 'readAll'>;
  readonly usage: Pick<Usage, 'tell'>;
}) {
  /** A hash of one of its secrets, by the id of a key. */
  const hashById = createLruCache<string>({ entries: IDS_MAX });

  const recall = (keyId: string) => verifier.recall(hashById.get(keyId) ?? '');

  return {
    /** Notes that a service has been told that this key is good, and will tell of its uses. */
    expect: (keyId: string, keyHash: string): void => hashById.set(keyId, keyHash),

    /**
     * Counts units of keys, by their ids. Returns how many found no room. What this process doesn't know is read
     * together; keys that have ended are passed over. Throws a StoreOutage if the store is out of reach.
     */
    async count(unitsById: ReadonlyMap<string, number>): Promise<number> {
      const unknown = [...unitsById.keys()].filter((keyId) => recall(keyId) === undefined);
      if (unknown.length > 0) {
        const hashes = await store.hashesOf(unknown, feed.queryTimeoutMs);
        await verifier.readAll([...hashes.values()]);
        for (const [keyId, keyHash] of hashes) hashById.set(keyId, keyHash);
      }
      let dropped = 0;
      for (const [keyId, units] of unitsById) {
        const key = recall(keyId);
        if (key != null) dropped += usage.tell(keyId, units);
      }
      return dropped;
    },
  };
}
