// The key domain: operations, verification and last uses, put together over a store.

import type { Clock, RandomBytes, Sha256 } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { KeyCeilings } from './grants.ts';
import { createLastUsed } from './last-used.ts';
import { createKeys, type Keys } from './operations.ts';
import type { KeyStore } from './record.ts';
import { createVerifier, type Verifier } from './verify.ts';

export interface KeyDomain {
  readonly keys: Keys;
  readonly verifier: Verifier;
  /** Stops polling and writes what is pending. The store stays open. */
  stop(): Promise<void>;
}

export function createKeyDomain(options: {
  store: KeyStore;
  clock: Clock;
  random: RandomBytes;
  sha256: Sha256;
  log: Log;
  production: boolean;
  ceilings: KeyCeilings;
  lagMaxMs: number;
}): KeyDomain {
  const lastUsed = createLastUsed(options);
  const verifier = createVerifier({ ...options, lastUsed });
  const keys = createKeys({ ...options, lastUsed, refresh: verifier.feed.refresh });
  return {
    keys,
    verifier,
    async stop() {
      verifier.feed.stop();
      await lastUsed.stop();
    },
  };
}
