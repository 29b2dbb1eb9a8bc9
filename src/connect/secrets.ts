// The secrets that registrations are signed with and codes are sealed with: the database's, so that any process can take
// what another one gave out. Those of codes are forgotten here, and there, once no code can need them.

import type { HandingOutStore } from '../keys/handing-out.ts';
import { repeat } from '../lib/background.ts';
import { MS_PER_HOUR } from '../lib/duration.ts';
import { ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { StoreUnavailable } from '../problem.ts';

export interface ConnectSecrets {
  /** Signs registrations. The same as long as there is the database. */
  clientKey(): Promise<Result<CryptoKey, StoreUnavailable>>;
  /** Seals codes; of an hour since the Unix epoch. Null: there is none, and it was not to be made. */
  codeKey(hour: number, make: boolean): Promise<Result<Uint8Array | null, StoreUnavailable>>;
  /** No secret is forgotten by itself any more. */
  stop(): void;
}

export interface ConnectSecretsOptions {
  readonly readClientSecret: () => Promise<Result<string, StoreUnavailable>>;
  readonly store: Pick<HandingOutStore, 'codeSecret' | 'forgetCodeSecrets'>;
  /** Which database it is: another one has other secrets. */
  readonly databaseId: () => string;
  readonly clock: Clock;
  readonly log: Log;
}

/** Codes are made in the hour of their secret, and end a minute after it. */
const KEPT_HOURS = 2;

export const hourAt = (ms: number): number => Math.floor(ms / MS_PER_HOUR);

export function createConnectSecrets(options: ConnectSecretsOptions): ConnectSecrets {
  const { readClientSecret, store, databaseId, clock, log } = options;
  let known = knownOf('');

  function ofThisDatabase() {
    const current = databaseId();
    if (known.databaseId !== current) known = knownOf(current);
    return known;
  }

  const forgetting = repeat(
    {
      everyMs: () => (known.codeKeys.size === 0 ? null : MS_PER_HOUR - (clock.nowMs() % MS_PER_HOUR)),
      clock,
      log,
      event: 'internal error',
    },
    async () => {
      const upToHour = hourAt(clock.nowMs()) - KEPT_HOURS;
      for (const hour of known.codeKeys.keys()) if (hour <= upToHour) known.codeKeys.delete(hour);
      const forgotten = await store.forgetCodeSecrets(upToHour);
      if (!forgotten.ok) log.warn('old secret not removed', { reason: forgotten.error.reason });
    },
  );

  return {
    async clientKey() {
      const kept = ofThisDatabase();
      if (kept.clientKey !== undefined) return ok(kept.clientKey);
      const secret = await readClientSecret();
      if (!secret.ok) return secret;
      const hmac = { name: 'HMAC', hash: 'SHA-256' };
      kept.clientKey = await crypto.subtle.importKey('raw', fromHex(secret.value), hmac, false, ['sign', 'verify']);
      return ok(kept.clientKey);
    },
    async codeKey(hour, make) {
      const kept = ofThisDatabase();
      const key = kept.codeKeys.get(hour);
      if (key !== undefined) return ok(key);
      const secret = await store.codeSecret(hour, make);
      if (!secret.ok || secret.value === null) return secret as Result<null, StoreUnavailable>;
      const read = fromHex(secret.value);
      kept.codeKeys.set(hour, read);
      forgetting.wake();
      return ok(read);
    },
    stop: forgetting.stop,
  };
}

const knownOf = (databaseId: string) => ({
  databaseId,
  clientKey: undefined as CryptoKey | undefined,
  codeKeys: new Map<number, Uint8Array>(),
});

const fromHex = (hex: string) => Uint8Array.fromHex(hex);
