// What an owner does with keys: create, list, revoke, delete, and change name or scopes. Every change is logged.

import { err, ok, type Result } from '../lib/result.ts';
import type { Clock, RandomBytes, Sha256 } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';
import { type Actor, actorFields, personOf } from './actor.ts';
import { createCreationBudget } from './creation-budget.ts';
import { grantOf, type KeyCeilings, type Wish } from './grants.ts';
import { hashKey, isIdShaped, mintId, mintKey } from './key-format.ts';
import type { LastUsed } from './last-used.ts';
import { createListGate } from './list-gate.ts';
import type { ApiKeyRecord, KeyStore, ListedKey } from './record.ts';

/** Keys one user may hold, in any state. Bounds the list, its answer, and how much one account can store. */
export const KEYS_PER_USER_MAX = 1000;
const MS_PER_DAY = 24 * 60 * 60 * 1000;

export interface NewKey extends Wish {
  readonly name: string;
}

/** Where a list goes: `release` runs once its response has left, or when it is clear that none will. */
export interface Recipient {
  holdUntilSent(release: () => void): void;
}

export interface Keys {
  /**
   * The new record and its plain key, which is given out here and never again, within what the actor may grant. A user
   * may create only so fast.
   */
  create(actor: Actor, input: NewKey): Promise<Result<{ record: ApiKeyRecord; key: string }, Problem>>;
  /**
   * The actor's keys, newest first, with last uses that the store does not have yet. One list at a time is on its way to
   * an actor; others wait for a while, and are then refused.
   */
  list(actor: Actor, recipient: Recipient): Promise<Result<ListedKey[], Problem>>;
  /**
   * Succeeds, and changes nothing, for a key that is not the actor's or does not exist: nobody learns which ids exist.
   */
  revoke(actor: Actor, keyId: string): Promise<Result<void, StoreUnavailable>>;
  /** As `revoke`, but removes the record. */
  delete(actor: Actor, keyId: string): Promise<Result<void, StoreUnavailable>>;
  /** Changes the fields that are given and not empty, within what the actor may grant. No tool offers it. */
  update(
    actor: Actor,
    keyId: string,
    fields: { name?: string; scopes?: readonly string[] },
  ): Promise<Result<void, Problem>>;
}

export interface KeysOptions {
  readonly store: KeyStore;
  readonly lastUsed: LastUsed;
  /** Makes a mutation known to this process before it is answered. */
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly production: boolean;
  readonly ceilings: KeyCeilings;
}

export function createKeys(options: KeysOptions): Keys {
  const { store, lastUsed, refresh, clock, random, sha256, log, production, ceilings } = options;
  const creations = createCreationBudget(clock, log);
  const lists = createListGate();

  /** Logs why the store gave no answer: the caller is told only that it gave none. */
  function logged<T>(stored: Result<T, StoreUnavailable>, requestId: string): Result<T, StoreUnavailable> {
    if (!stored.ok) log.warn('key store out of reach', { requestId, reason: stored.error.reason });
    return stored;
  }

  /** What the actor may give to a key, of what is wanted. */
  function granted(actor: Actor, wish: Wish): ReturnType<typeof grantOf> {
    const grant = grantOf(ceilings, actor.grantable, wish);
    if (!grant.ok && grant.error.code === 'scope_not_granted') log.warn('Scope not granted', actorFields(actor));
    return grant;
  }

  async function mutate(
    event: string,
    actor: Actor,
    keyId: string,
    change: () => Promise<Result<boolean, StoreUnavailable>>,
  ): Promise<Result<void, StoreUnavailable>> {
    // Text that is not shaped like an id names no key, and never gets near the store or the log: the store might cut it
    // to an id, or it may be a key pasted into the wrong field.
    if (!isIdShaped(keyId)) {
      log.info(event, { ...actorFields(actor), changed: false });
      return ok(undefined);
    }
    const changed = logged(await change(), actor.requestId);
    if (!changed.ok) return changed;
    await refresh();
    log.info(event, { ...actorFields(actor), keyId, ...(!changed.value && { changed: false }) });
    return ok(undefined);
  }

  return {
    async create(actor, { name, ...wish }) {
      const grant = granted(actor, wish);
      if (!grant.ok) return grant;
      const taken = creations.take(actor);
      if (!taken.ok) return taken;
      const { scopes, expiresInDays } = grant.value;
      const key = mintKey(production, random);
      const createdAtMs = clock.nowMs();
      const record: ApiKeyRecord = {
        id: mintId(random),
        userId: actor.userId,
        name,
        keyHash: hashKey(sha256, key),
        scopes,
        active: true,
        createdAtMs,
        expiresAtMs: expiresInDays === null ? null : Math.round(createdAtMs + expiresInDays * MS_PER_DAY),
      };
      const inserted = logged(await store.insert(record, KEYS_PER_USER_MAX), actor.requestId);
      if (!inserted.ok) return inserted;
      if (inserted.value === 'limit_reached') return err({ code: 'key_limit_reached' });
      log.info('API key created', { ...actorFields(actor), keyId: record.id });
      return ok({ record, key });
    },

    async list(actor, recipient) {
      const { userId, requestId } = actor;
      const turn = await lists.enter(personOf(actor), requestId);
      if (turn === null) return err({ code: 'overloaded' });
      recipient.holdUntilSent(turn.left);
      try {
        const records = logged(await store.listByUser(userId, turn.goOn), requestId);
        if (!records.ok) return records;
        if (records.value === null) return err({ code: 'overloaded' });
        return ok(records.value.map((record) => ({ ...record, lastUsedAtMs: lastUsed.of(record) })));
      } finally {
        turn.built();
      }
    },

    revoke: (actor, keyId) => mutate('API key revoked', actor, keyId, () => store.deactivate(actor.userId, keyId)),

    delete: (actor, keyId) => mutate('API key deleted', actor, keyId, () => store.remove(actor.userId, keyId)),

    async update(actor, keyId, { name, scopes }) {
      const fields = { ...(name && { name }), ...(scopes && scopes.length > 0 && { scopes }) };
      if (Object.keys(fields).length === 0) return ok(undefined);
      const grant = granted(actor, { scopes: fields.scopes ?? [] });
      if (!grant.ok) return grant;
      return mutate('API key updated', actor, keyId, () => store.update(actor.userId, keyId, fields));
    },
  };
}
