// What an owner does with keys: create, list, rotate, revoke, delete, and change name or scopes. Every change is logged.

import { MS_PER_DAY, MS_PER_HOUR } from '../lib/duration.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Clock, RandomBytes, Sha256 } from '../lib/runtime.ts';
import { nextTurn } from '../lib/timeout.ts';
import { LIMITS } from '../limits/index.ts';
import { createWaitingShare } from '../limits/share.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';
import { type Actor, actorFields, type Origin, type OriginOf, personOf } from './actor.ts';
import { grantOf, type KeyCeilings, type Wish } from './grants.ts';
import { hashKey, isIdShaped, mintId, mintKey } from './key-format.ts';
import type { LastUsed } from './last-used.ts';
import { createPersonBudget } from './person-budget.ts';
import { type ApiKeyRecord, fingerprintOf, type ListedKey } from './record.ts';
import { type Rotation, rotationAt, rotationRefusal } from './rotation.ts';
import type { Changed, KeyStore, ListPlace } from './store.ts';
import type { Usage } from './usage.ts';
import type { Uses } from './uses.ts';

/** Keys one user may hold, in any state. Bounds the list, its response, and how much one account can store. */
export const KEYS_PER_USER_MAX = 1000;

/** One response with keys: 1,000 ordinary ones. Bounds what a list takes of memory, and for how long it computes. */
export const LIST_BYTES_MAX = 400_000;

/** A list that waits this long for its turn is refused. */
const LIST_WAIT_MS_MAX = 5000;
/** A person may wait with all that come within that time. */
const LISTS_WAITING = { total: 1000, each: LIMITS.lists.burst + (LIMITS.lists.perS * LIST_WAIT_MS_MAX) / 1000 };
/** From this many keys on, what is done with a list has turns of the event loop of its own. */
const LONG_LIST_KEYS = 50;

/** A change that failed may be carried out this long after, at most. */
const UNKNOWN_OUTCOME_MS = 60_000;

/** A rotation that others overtake is tried this often in all. */
const ROTATE_TRIES = 3;

export interface NewKey extends Wish {
  readonly name: string;
}

/** A record and its new plain key. */
export interface MadeKey {
  readonly record: ApiKeyRecord;
  readonly key: string;
}

/** A key as its owner sees it. */
export interface OwnKey extends ListedKey {
  readonly expired: boolean;
  /** Null: not used in so many days. */
  readonly uses: Uses | null;
  /** Null unless it is being rotated. */
  readonly rotation: Rotation | null;
}

/** A part of an actor's list. */
export interface OwnPage {
  readonly keys: readonly (OwnKey & ListPlace)[];
  /** How many there are from the first of these on. */
  readonly remaining: number;
}

export interface Keys {
  /**
   * The new record and its plain key, which is given out here and never again, within what the actor may grant. A user
   * may create only so fast.
   */
  create(actor: Actor, input: NewKey): Promise<Result<MadeKey, Problem>>;
  /**
   * The actor's keys after a place (null: from the newest on), with last uses that the store does not have yet: as many as
   * may have LIST_BYTES_MAX as JSON, perhaps some more. A user may list only so fast; persons take turns.
   */
  list(actor: Actor, after: ListPlace | null): Promise<Result<OwnPage, Problem>>;
  /**
   * Succeeds, and changes nothing, for a key that is not the actor's or does not exist: nobody learns which ids exist.
   */
  revoke(actor: Actor, keyId: string): Promise<Result<void, Problem>>;
  /** As `revoke`, but removes the record. */
  delete(actor: Actor, keyId: string): Promise<Result<void, Problem>>;
  /**
   * Gives the actor's key a new secret, which is given out here and never again. The old one goes on until
   * `overlapHours` after the new one's first use; with 0 it ends now. With `expiresInDays` the key gets a new expiry. A user
   * may rotate and create only so fast.
   */
  rotate(
    actor: Actor,
    keyId: string,
    wish: { overlapHours: number; expiresInDays?: number | undefined },
  ): Promise<Result<MadeKey, Problem>>;
  /** Uses of a key today (UTC), by all processes as far as this one knows. */
  usesToday(keyId: string): number;
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
  readonly usage: Pick<Usage, 'quotaOf' | 'usesOf' | 'usesToday'>;
  /** Makes a mutation known to this process before the response. */
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly originOf: OriginOf;
  readonly keyPrefix: string;
  readonly production: boolean;
  readonly ceilings: KeyCeilings;
}

const isRevoked = ({ active }: ApiKeyRecord) => !active;
const never = () => false;

export interface OwnPart {
  readonly lastUsed: LastUsed;
  readonly usage: Pick<Usage, 'quotaOf' | 'usesOf'>;
}

/** What the store doesn't know of a listed key. */
export const ownPartOf = (
  key: ListedKey,
  { lastUsed, usage }: OwnPart,
  uses: ReadonlyMap<string, Uses>,
  nowMs: number,
) => ({
  lastUsedAtMs: lastUsed.of(key),
  uses: uses.get(key.id) ?? null,
  quota: usage.quotaOf(key),
  rotation: rotationAt(key, nowMs),
  expired: key.expiresAtMs !== null && key.expiresAtMs < nowMs,
});

export function createKeys(options: KeysOptions): Keys {
  const { store, usage, refresh, clock, random, sha256, log, originOf, keyPrefix, production, ceilings } = options;
  // Nothing else that changes keys: each key is revoked and deleted at most once, and each new secret first used once, so
  // this bounds all changes, and nobody who holds a user's token can keep its owner from revoking keys.
  const creations = createPersonBudget([LIMITS.creations, LIMITS.creationsOfDay], clock, log);
  const lists = createPersonBudget([LIMITS.lists], clock, log);
  const misses = createPersonBudget([LIMITS.misses], clock, log);
  let lastFailedMs = Number.NEGATIVE_INFINITY; // a change whose outcome is unknown
  const reading = createWaitingShare(LIMITS.listsAtOnce, LISTS_WAITING, clock);

  /** Logs why the store gave no response: the caller is told only that it gave none. */
  function logged<T>(stored: Result<T, StoreUnavailable>, { requestId, traceId }: Actor): Result<T, StoreUnavailable> {
    if (!stored.ok) log.warnOnce('key store out of reach', { requestId, traceId, reason: stored.error.reason });
    return stored;
  }

  /** What the actor may give to a key, of what is wanted. */
  function granted(actor: Actor, wish: Wish): ReturnType<typeof grantOf> {
    const grant = grantOf(ceilings, actor.grantable, wish);
    if (!grant.ok && grant.error.code === 'scope_not_granted') log.warn('Scope not granted', actorFields(actor));
    return grant;
  }

  const originBy = (actor: Actor) => actor.origin ?? originOf('tool', actor, actor.actor);

  async function mutate(
    event: string,
    actor: Actor,
    keyId: string,
    isDone: (record: ApiKeyRecord) => boolean,
    change: (origin: Origin) => Promise<Result<Changed | null, StoreUnavailable>>,
  ): Promise<Result<void, Problem>> {
    // Text that is not shaped like an id names no key, and never gets near the store or the log: the store might cut it
    // to an id, or it may be a key pasted into the wrong field.
    if (!isIdShaped(keyId)) {
      log.info(event, { ...actorFields(actor), changed: false });
      return ok(undefined);
    }
    const found = logged(await store.findOwn(actor.userId, keyId), actor);
    if (!found.ok) return found;
    if (found.value === null || isDone(found.value)) return changesNothing(event, actor, keyId, found.value);
    const changed = logged(await change(originBy(actor)), actor);
    if (!changed.ok) {
      lastFailedMs = clock.monotonicMs();
      return changed;
    }
    await refresh();
    const { value } = changed;
    log.info(event, { ...actorFields(actor), keyId, ...(value === null ? { changed: false } : value) });
    return ok(undefined);
  }

  /** A refusal that a caller may ask for only so often. */
  function missed(actor: Actor, problem: Problem): Result<never, Problem> {
    const taken = misses.take(actor);
    return taken.ok ? err(problem) : taken;
  }

  /** No write. What has ended without this process knowing is made known to it: an earlier try may have done it. */
  async function changesNothing(
    event: string,
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
    async create(actor, { name, ...wish }) {
      const grant = granted(actor, wish);
      if (!grant.ok) return grant;
      const taken = creations.take(actor);
      if (!taken.ok) return taken;
      const { scopes, expiresInDays, rateLimit, quota } = grant.value;
      const key = mintKey(keyPrefix, production, random);
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
        second: null,
        rotations: 0,
        rateLimit,
        quota,
      };
      const inserted = logged(await store.insert(record, KEYS_PER_USER_MAX, originBy(actor)), actor);
      if (!inserted.ok) return inserted;
      if (inserted.value === 'limit_reached') return err({ code: 'key_limit_reached' });
      const fingerprint = fingerprintOf(record.keyHash);
      log.info('API key created', { ...actorFields(actor), keyId: record.id, fingerprint });
      return ok({ record, key });
    },

    async list(actor, after) {
      const taken = lists.take(actor);
      if (!taken.ok) return taken;
      const release = await reading.wait(personOf(actor), LIST_WAIT_MS_MAX);
      if (release === null) return err({ code: 'overloaded' });
      try {
        const listed = logged(await store.listByUser(actor.userId, after, LIST_BYTES_MAX), actor);
        if (!listed.ok) return listed;
        if (listed.value.keys.length >= LONG_LIST_KEYS) await nextTurn();
        const nowMs = clock.nowMs();
        const uses = logged(await usage.usesOf(listed.value.keys.map(({ id }) => id)), actor);
        if (!uses.ok) return uses;
        const keys = listed.value.keys.map((key) => ({ ...key, ...ownPartOf(key, options, uses.value, nowMs) }));
        return ok({ ...listed.value, keys });
      } finally {
        void nextTurn().then(release);
      }
    },

    usesToday: usage.usesToday,

    revoke: (actor, keyId) =>
      mutate('API key revoked', actor, keyId, isRevoked, (origin) => store.deactivate(actor.userId, keyId, origin)),

    delete: (actor, keyId) =>
      mutate('API key deleted', actor, keyId, never, (origin) => store.remove(actor.userId, keyId, origin)),

    async rotate(actor, keyId, { overlapHours, expiresInDays }) {
      if (!isIdShaped(keyId)) return err({ code: 'key_not_found' });
      const lasting = granted(actor, { scopes: [], expiresInDays });
      if (!lasting.ok) return lasting;
      const overlapMs = overlapHours * MS_PER_HOUR;
      for (let tries = 0; tries < ROTATE_TRIES; tries += 1) {
        const found = logged(await store.findOwn(actor.userId, keyId), actor);
        if (!found.ok) return found;
        const record = found.value;
        if (record === null) return missed(actor, { code: 'key_not_found' });
        if (!granted(actor, { scopes: record.scopes }).ok) {
          return err({ code: 'scope_not_granted', grantable: actor.grantable ?? ceilings.scopes ?? [] });
        }
        const nowMs = clock.nowMs();
        const refusal = rotationRefusal(record, overlapMs, nowMs);
        if (refusal !== null) return missed(actor, refusal);
        const taken = creations.take(actor);
        if (!taken.ok) return taken;
        const key = mintKey(keyPrefix, production, random);
        const hash = hashKey(sha256, key);
        const expiresAtMs = expiresInDays === undefined ? null : Math.round(nowMs + expiresInDays * MS_PER_DAY);
        const next = { hash, overlapMs, expiresAtMs };
        const rotated = logged(await store.rotate(record, next, nowMs, originBy(actor)), actor);
        if (!rotated.ok) return rotated;
        if (!rotated.value) continue; // another caller has changed it meanwhile
        await refresh();
        const fingerprint = fingerprintOf(overlapMs > 0 ? record.keyHash : hash);
        log.info('API key rotated', { ...actorFields(actor), keyId, fingerprint });
        return ok({ record: expiresAtMs === null ? record : { ...record, expiresAtMs }, key });
      }
      return err({ code: 'overloaded' });
    },

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
