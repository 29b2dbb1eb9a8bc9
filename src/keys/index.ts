// The key domain: operations, verification and last uses, put together over a store.

import type { Clock, RandomBytes, Sha256 } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { KeyCeilings } from './grants.ts';
import { createLastUsed } from './last-used.ts';
import { createKeys, type Keys } from './operations.ts';
import { createOriginOf } from './origin.ts';
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
  /** Whether events say where a change came from. */
  eventAddresses: boolean;
}): KeyDomain {
  const lastUsed = createLastUsed(options);
  const originOf = createOriginOf(options.eventAddresses);
  const verifier = createVerifier({ ...options, lastUsed, originOf });
  const keys = createKeys({ ...options, lastUsed, originOf, refresh: verifier.feed.refresh });
  return {
    keys,
    verifier,
    async stop() {
      verifier.feed.stop();
      await lastUsed.stop();
    },
  };
}
