// The key domain: operations, verification and last uses, put together over a store.

import type { Quota } from '../lib/rate-limit.ts';
import type { Clock, RandomBytes, Sha256 } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import { createUsage, type Usage } from '../uses/usage.ts';
import { createOriginOf } from './actor.ts';
import { type AdminKeys, type AdminStore, createAdminKeys } from './admin.ts';
import { withCounts } from './counted-reads.ts';
import { createFeed, type Feed } from './feed.ts';
import type { KeyCeilings } from './grants.ts';
import { createLastUsed } from './last-used.ts';
import { createKeys, type Keys } from './operations.ts';
import { createRevokeSecrets, type RevokeSecrets } from './revocation-by-secret.ts';
import type { KeyStore } from './store.ts';
import { createUnknownKeys } from './unknown-keys.ts';
import { createVerifier, type Verifier } from './verify.ts';

export interface KeyDomain {
  readonly keys: Keys;
  readonly verifier: Verifier;
  readonly feed: Feed;
  readonly admin: AdminKeys;
  readonly revokeSecrets: RevokeSecrets;
  readonly usage: Usage;
  /** Reads the trail of changes. */
  readonly events: KeyStore['events'];
  /** Stops polling and writes what is pending. The store stays open. */
  stop(): Promise<void>;
}

export function createKeyDomain(options: {
  store: KeyStore;
  adminStore: AdminStore;
  clock: Clock;
  random: RandomBytes;
  sha256: Sha256;
  log: Log;
  production: boolean;
  keyPrefix: string;
  ceilings: KeyCeilings;
  lagMaxMs: number;
  /** Of keys without one of their own; 0 requests: none. */
  rateLimit: { readonly requests: number; readonly windowMs: number };
  /** As `rateLimit`; null: none. */
  keyQuota: Quota | null;
  /** Whether events say where a change came from. */
  eventAddresses: boolean;
}): KeyDomain {
  const lastUsed = createLastUsed(options);
  const usage = createUsage(options);
  const store = withCounts(options.store, usage);
  const originOf = createOriginOf(options.eventAddresses);
  const feed = createFeed(options);
  const unknownKeys = createUnknownKeys({ ...options, store, feed });
  const verifier = createVerifier({ ...options, store, feed, lastUsed, unknownKeys, originOf });
  const { refresh } = feed;
  const keys = createKeys({ ...options, lastUsed, usage, originOf, refresh });
  return {
    keys,
    verifier,
    feed,
    usage,
    admin: createAdminKeys({ ...options, store: options.adminStore, lastUsed, usage, originOf, refresh }),
    events: options.store.events,
    revokeSecrets: createRevokeSecrets({ ...options, unknownKeys, originOf, refresh }),
    async stop() {
      feed.stop();
      await Promise.all([lastUsed.stop(), usage.stop()]);
    },
  };
}
