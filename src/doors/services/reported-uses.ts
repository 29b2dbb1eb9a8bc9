// Counts uses that services admitted from memory and report later: finds keys by their ids, and counts as far as their
// limits still have room.

import { createLruCache } from '../../ground/cache.ts';
import type { Feed } from '../../keys/feed.ts';
import type { KeyStore } from '../../keys/store.ts';
import type { Verifier } from '../../keys/verify.ts';
import type { Usage } from '../../uses/usage.ts';

/** Ids whose hashes are cached, some 4 MB. A miss costs a read. */
const IDS_MAX = 20_000;

export type ReportedUses = ReturnType<typeof createReportedUses>;

export function createReportedUses({
  store,
  feed,
  verifier,
  usage,
}: {
  readonly store: KeyStore;
  readonly feed: Feed;
  readonly verifier: Verifier;
  readonly usage: Usage;
}) {
  /** The hash of one of a key's secrets, by the key's id. */
  const hashById = createLruCache<string>({ entries: IDS_MAX });

  const recall = (keyId: string) => verifier.recall(hashById.get(keyId) ?? '');

  return {
    /** Notes that a service was told that this key is good, and will report its uses. */
    expect: (keyId: string, keyHash: string): void => hashById.set(keyId, keyHash),

    /**
     * Counts units of keys, by their ids. Returns how many found no room. Uncached keys are read together; ended keys
     * are ignored. Throws a StoreOutage if the store is out of reach.
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
        if (key?.holder) dropped += usage.countReported(key.holder, units);
      }
      return dropped;
    },
  };
}
