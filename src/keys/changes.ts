// Changes of existing keys: revoke, delete, new name or scopes. What would change nothing has a budget.

import type { Problem } from '../ground/problem.ts';
import { ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { InfoEvent } from '../watch/events.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, actorFields, type Origin, type OriginOf, type PersonBudget } from './actor.ts';
import type { Granted } from './grants.ts';
import { isIdShaped } from './record.ts';
import type { Changed, KeyStore } from './store.ts';

export type Changes = ReturnType<typeof createChanges>;

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

export function createChanges(options: ChangesOptions) {
  const { store, refresh, log, originOf, granted, misses } = options;

  async function mutate(
    event: InfoEvent,
    actor: Actor,
    keyId: string,
    change: (origin: Origin) => Promise<Changed | null>,
  ): Promise<Result<void, Problem>> {
    // Other text reaches neither the store, which might cut it to an id, nor the log: it may be a key.
    if (!isIdShaped(keyId)) {
      log.info(event, { ...actorFields(actor), changed: false });
      return ok(undefined);
    }
    // Beyond the budget a read decides: nobody makes others wait for writes that change nothing, and what is active
    // can be revoked all the same.
    if (misses.isUsedUp(actor) && !(await store.findOwn(actor.userId, keyId))?.active) return misses.take(actor);
    const changed = await change(originOf('tool', actor, actor.actor));
    if (changed === null) {
      const taken = misses.take(actor);
      if (!taken.ok) return taken;
    }
    await refresh(); // also of what changed nothing: another process, or an earlier try, may have changed the key
    log.info(event, { ...actorFields(actor), keyId, ...(changed ?? { changed: false }) });
    return ok(undefined);
  }

  return {
    /** Succeeds without a change if the key is not the actor's or does not exist: nobody learns which ids exist. */
    revoke: (actor: Actor, keyId: string) =>
      mutate('API key revoked', actor, keyId, (origin) => store.deactivate(actor.userId, keyId, origin)),

    /** As `revoke`, but removes the record. */
    delete: (actor: Actor, keyId: string) =>
      mutate('API key deleted', actor, keyId, (origin) => store.remove(actor.userId, keyId, origin)),

    /** Changes the fields that are given and not empty, within what the actor may grant. No tool offers it. */
    async update(
      actor: Actor,
      keyId: string,
      { name, scopes }: { readonly name?: string; readonly scopes?: readonly string[] },
    ): Promise<Result<void, Problem>> {
      const fields = { ...(name && { name }), ...(scopes && scopes.length > 0 && { scopes }) };
      if (Object.keys(fields).length === 0) return ok(undefined);
      const grant = granted(actor, { scopes: fields.scopes ?? [] });
      if (!grant.ok) return grant;
      return mutate('API key updated', actor, keyId, (origin) => store.update(actor.userId, keyId, fields, origin));
    },
  };
}
