// Opening the store the configuration names. The only place that knows there are several kinds.

import type { DatabaseConfig } from '../config.ts';
import type { KeyStore } from '../keys/record.ts';
import type { Log } from '../log.ts';
import type { Result, StoreUnavailable } from '../problem.ts';

export interface StoreHealth {
  readonly mode: 'embedded' | 'remote' | 'replica';
  readonly ok: boolean;
}

export interface Store extends KeyStore {
  readonly mode: StoreHealth['mode'];
  /** Writes pending upkeep and releases files and connections. */
  close(): void;
}

/** How often old changes are removed; also done once at the start. */
const PRUNE_EVERY_MS = 60 * 60 * 1000;

/** Opens and migrates the database. Throws UnusableDatabase, or an Error that says why it can't be opened. */
export async function openStore(config: DatabaseConfig, log: Log): Promise<Store> {
  if (config.mode === 'remote') throw new Error('DATABASE_URL: remote databases are not served yet');
  const { openEmbedded } = await import('./open-embedded.ts');
  const { store, close } = await openEmbedded(config.path);
  return { ...store, mode: config.mode, close: closing(store.prune, close, log) };
}

function closing(prune: () => Promise<Result<void, StoreUnavailable>>, close: () => void, log: Log): () => void {
  const run = () => {
    void prune().then((pruned) => {
      if (!pruned.ok) log.warn('old changes not removed', { reason: pruned.error.reason });
    });
  };
  const timer = setInterval(run, PRUNE_EVERY_MS);
  return () => {
    clearInterval(timer);
    close();
  };
}
