// The secrets that codes are sealed with: the database's, so that any process can open what another one sealed. They are
// forgotten here, and there, once no code can need them.

import { endedHourAt, type HandingOutStore } from '../keys/handing-out.ts';
import { repeat } from '../lib/background.ts';
import { MS_PER_HOUR } from '../lib/duration.ts';
import { ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { StoreResult, StoreUnavailable } from '../problem.ts';

export interface CodeSecrets {
  /** Seals the codes of an hour. Made unless there is one. */
  sealingKey(hour: number): Promise<Result<Uint8Array, StoreUnavailable>>;
  /** Opens them. Null: there is none. */
  openingKey(hour: number): Promise<Result<Uint8Array | null, StoreUnavailable>>;
  /** No secret is forgotten by itself any more. */
  stop(): void;
}

export interface CodeSecretsOptions {
  readonly store: Omit<HandingOutStore, 'redeem'>;
  /** Which database it is: another one has other secrets. */
  readonly databaseId: () => string;
  readonly clock: Clock;
  readonly log: Log;
}

export function createCodeSecrets(options: CodeSecretsOptions): CodeSecrets {
  const { store, databaseId, clock, log } = options;
  let known = knownOf('');

  function ofThisDatabase() {
    const current = databaseId();
    if (known.databaseId !== current) known = knownOf(current);
    return known;
  }

  const forgetting = repeat(
    {
      everyMs: () => MS_PER_HOUR - (clock.nowMs() % MS_PER_HOUR), // also those of processes that are gone
      clock,
      log,
      event: 'internal error',
    },
    async () => {
      const upToHour = endedHourAt(clock.nowMs());
      for (const hour of known.keys.keys()) if (hour <= upToHour) known.keys.delete(hour);
      const forgotten = await store.forgetCodeSecrets(upToHour);
      if (!forgotten.ok) log.warn('old secret not removed', { reason: forgotten.error.reason });
    },
  );

  /** From memory, else what `read` gives. */
  async function keyOf<None extends null>(
    hour: number,
    read: (hour: number) => StoreResult<string | None>,
  ): Promise<Result<Uint8Array | None, StoreUnavailable>> {
    const kept = ofThisDatabase();
    const key = kept.keys.get(hour);
    if (key !== undefined) return ok(key);
    const secret = await read(hour);
    if (!secret.ok || secret.value === null) return secret as Result<None, StoreUnavailable>;
    const made = Uint8Array.fromHex(secret.value);
    kept.keys.set(hour, made);
    return ok(made);
  }

  return {
    sealingKey: (hour) => keyOf<never>(hour, store.makeCodeSecret),
    openingKey: (hour) => keyOf(hour, store.codeSecret),
    stop: forgetting.stop,
  };
}

const knownOf = (databaseId: string) => ({
  databaseId,
  keys: new Map<number, Uint8Array>(),
});
