// Changes of existing keys: revoke, delete, new name or scopes. What changes nothing writes nothing, and has a budget.

import type { Problem } from '../ground/problem.ts';
import { ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { InfoEvent } from '../watch/events.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, actorFields, type Origin, type OriginOf, type PersonBudget } from './actor.ts';
import type { Granted } from './grants.ts';
import { isIdShaped } from './key-format.ts';
import type { ApiKeyRecord } from './record.ts';
import type { Changed, KeyStore } from './store.ts';

/** A change whose outcome is unknown may still be carried out within this time. */
const UNKNOWN_OUTCOME_MS = 60_000;

export interface Changes {
  /** Succeeds without a change if the key is not the actor's or does not exist: nobody learns which ids exist. */
  revoke(actor: Actor, keyId: string): Promise<Result<void, Problem>>;
  /** As `revoke`, but removes the record. */
  delete(actor: Actor, keyId: string): Promise<Result<void, Problem>>;
  /** Changes the fields that are given and not empty, within what the actor may grant. No tool offers it. */
  update(
    actor: Actor,
    keyId: string,
    fields: { name?: string; scopes?: readonly string[] },
  ): Promise<Result<void, Problem>>;
}

export interface ChangesOptions {
  readonly store: KeyStore;
  /** Makes a change known to this process before the response. */
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
  readonly originOf: OriginOf;
  readonly granted: Granted;
  /** Of requests that change nothing. */
  readonly misses: PersonBudget;
}

const isRevoked = ({ active }: ApiKeyRecord) => !active;
const never = () => false;

export function createChanges(options: ChangesOptions): Changes {
  const { store, refresh, clock, log, originOf, granted, misses } = options;
  let lastFailedMs = Number.NEGATIVE_INFINITY; // a change whose outcome is unknown

  async function mutate(
    event: InfoEvent,
    actor: Actor,
    keyId: string,
    isDone: (record: ApiKeyRecord) => boolean,
    change: (origin: Origin) => Promise<Changed | null>,
  ): Promise<Result<void, Problem>> {
    // Other text reaches neither the store, which might cut it to an id, nor the log: it may be a key.
    if (!isIdShaped(keyId)) {
      log.info(event, { ...actorFields(actor), changed: false });
      return ok(undefined);
    }
    const found = await store.findOwn(actor.userId, keyId);
    if (found === null || isDone(found)) return changesNothing(event, actor, keyId, found);
    const changed = await change(originOf('tool', actor, actor.actor)).catch((error) => {
      lastFailedMs = clock.monotonicMs();
      throw error;
    });
    await refresh();
    log.info(event, { ...actorFields(actor), keyId, ...(changed === null ? { changed: false } : changed) });
    return ok(undefined);
  }

  /** Writes nothing. Refreshes if an earlier try or another process may have changed the key. */
  async function changesNothing(
    event: InfoEvent,
    actor: Actor,
    keyId: string,
    record: ApiKeyRecord | null,
  ): Promise<Result<void, Problem>> {
    const taken = misses.take(actor);
    if (!taken.ok) return taken;
    if (record !== null || clock.monotonicMs() - lastFailedMs < UNKNOWN_OUTCOME_MS) await refresh();
    log.info(event, { ...actorFields(actor), keyId, changed: false });
    return ok(undefined);
  }

  return {
    revoke: (actor, keyId) =>
      mutate('API key revoked', actor, keyId, isRevoked, (origin) => store.deactivate(actor.userId, keyId, origin)),

    delete: (actor, keyId) =>
      mutate('API key deleted', actor, keyId, never, (origin) => store.remove(actor.userId, keyId, origin)),

    async update(actor, keyId, { name, scopes }) {
      const fields = { ...(name && { name }), ...(scopes && scopes.length > 0 && { scopes }) };
      if (Object.keys(fields).length === 0) return ok(undefined);
      const grant = granted(actor, { scopes: fields.scopes ?? [] });
      if (!grant.ok) return grant;
      return mutate('API key updated', actor, keyId, never, (origin) =>
        store.update(actor.userId, keyId, fields, origin),
      );
    },
  };
}
