// The key store, whose reads of presented keys bring the counts of their uses.

import type { Usage } from '../uses/usage.ts';
import type { KeyStore } from './store.ts';

export const withCounts = (store: KeyStore, { beginRead }: Usage): KeyStore => ({
  ...store,
  async findByHash(keyHash, atLeast, withinMs, whose) {
    const { asOf, learn } = beginRead();
    const found = await store.findByHash(keyHash, atLeast, withinMs, whose, asOf);
    if (found.ok) learn(found.value);
    return found;
  },
  async findByHashes(keyHashes, withinMs, whose) {
    const { asOf, learn } = beginRead();
    const found = await store.findByHashes(keyHashes, withinMs, whose, asOf);
    if (found.ok) for (const keyHash of keyHashes) learn(found.value(keyHash));
    return found;
  },
});
