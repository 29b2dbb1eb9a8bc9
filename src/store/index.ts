// Opens the store that the configuration names. Only this file knows that there are several kinds.

import type { DatabaseConfig } from '../config.ts';
import type { KeyStore } from '../keys/record.ts';
import type { Log } from '../log.ts';
import type { StoreCounts } from './counted.ts';
import type { Answered } from './database.ts';

export interface Store extends KeyStore {
  readonly mode: 'embedded' | 'remote' | 'replica';
  /** What was asked of the database so far. */
  readonly counts: Readonly<StoreCounts>;
  /** Stops the upkeep and releases files and connections. */
  close(): Promise<void>;
}

/** Old changes are removed shortly after start-up, off its critical path, and then this often. */
const PRUNE_FIRST_AFTER_MS = 2000;
const PRUNE_EVERY_MS = 60 * 60 * 1000;

/**
 * Opens and migrates the database; a remote one that is away, as soon as it answers. Throws UnusableDatabase, or an
 * Error that says why it can't be opened.
 */
export async function openStore(config: DatabaseConfig, log: Log): Promise<Store> {
  const { store, mode, close } = await open(config, log);
  const stopPruning = pruneRegularly(store.prune, log);
  return {
    ...store,
    mode,
    async close() {
      stopPruning();
      await close();
    },
  };
}

async function open(config: DatabaseConfig, log: Log) {
  if (config.mode === 'embedded') return (await import('./open-embedded.ts')).openEmbedded(config.path);
  return (await import('./open-remote.ts')).openRemote(config, log);
}

function pruneRegularly(prune: () => Answered<void>, log: Log): () => void {
  let stopped = false;
  let timer = setTimeout(run, PRUNE_FIRST_AFTER_MS);
  async function run(): Promise<void> {
    try {
      const pruned = await prune();
      if (!pruned.ok && !stopped) log.warn('old changes not removed', { reason: pruned.error.reason });
    } catch (bug) {
      log.error('old changes not removed', { error: bug });
    }
    // At random, so that the processes of a fleet don't all prune at once.
    if (!stopped) timer = setTimeout(run, PRUNE_EVERY_MS * (0.5 + Math.random()));
  }
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
