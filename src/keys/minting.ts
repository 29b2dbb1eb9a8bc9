// New secrets: of a new key, and of one that is rotated. A person may make only so many, so fast.

import { LIMITS } from '../ground/limits/index.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { MS_PER_DAY, MS_PER_HOUR, type RandomBytes, type Sha256 } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, actorFields, type Caller, createPersonBudget, type RequestIds } from './actor.ts';
import type { ChangesOptions } from './changes.ts';
import type { Grant, KeyCeilings, KeyRequest } from './grants.ts';
import {
  type ApiKeyRecord,
  fingerprintOf,
  hashKey,
  isIdShaped,
  mintId,
  mintKey,
  NEW_KEY,
  rotationRefusal,
} from './record.ts';

/** Keys one user may hold, in any state. Bounds the list, its response, and how much one account can store. */
export const KEYS_PER_USER_MAX = 1000;

/** Tries of a rotation that others overtake: of so many at the same time none is refused. */
const ROTATE_TRIES = 10;

export interface MadeKey {
  readonly record: ApiKeyRecord;
  readonly key: string;
}

type NewKey = KeyRequest & { readonly name: string };

/** A key that a person has decided on, for whoever redeems a code. Plain, so that it can be kept as JSON. */
export interface KeyOrder extends NewKey, Pick<Actor, 'userId' | 'actor' | 'grantable'> {}

export type Minting = ReturnType<typeof createMinting>;

export interface MintingOptions extends ChangesOptions {
  readonly random: RandomBytes;
  readonly sha256: Sha256;
  readonly keyPrefix: string;
  readonly production: boolean;
  readonly ceilings: KeyCeilings;
}

export function createMinting(options: MintingOptions) {
  const { store, refresh, clock, random, sha256, log, originOf, granted, misses } = options;
  const { keyPrefix, production, ceilings } = options;
  // No other change has a budget: each key is revoked and deleted at most once, and each new secret first used once, so
  // this bounds them all, and whoever holds a user's token can't keep its owner from revoking keys.
  const creations = createPersonBudget([LIMITS.creations, LIMITS.creationsOfDay], clock, log);

  function paid(actor: Actor, request: KeyRequest): Result<Grant, Problem> {
    const grant = granted(actor, request);
    if (!grant.ok) return grant;
    const taken = creations.take(actor);
    return taken.ok ? grant : taken;
  }

  function made(userId: string, name: string, grant: Grant): MadeKey {
    const { expiresInDays, ...given } = grant;
    const key = mintKey(keyPrefix, production, random);
    const createdAtMs = clock.nowMs();
    const record: ApiKeyRecord = {
      ...NEW_KEY,
      ...given,
      id: mintId(random),
      userId,
      name,
      keyHash: hashKey(sha256, key),
      createdAtMs,
      expiresAtMs: expiresInDays === null ? null : Math.round(createdAtMs + expiresInDays * MS_PER_DAY),
    };
    return { record, key };
  }

  return {
    /** A key within what the actor may grant. Its plain text is given out here and never again. */
    async create(actor: Actor, { name, ...request }: NewKey): Promise<Result<MadeKey, Problem>> {
      const grant = paid(actor, request);
      if (!grant.ok) return grant;
      const { record, key } = made(actor.userId, name, grant.value);
      const inserted = await store.insert(record, KEYS_PER_USER_MAX, originOf('tool', actor, actor.actor));
      if (inserted === 'limit_reached') return err({ code: 'key_limit_reached' });
      logCreated(log, record, actor);
      return ok({ record, key });
    },

    /** The same checks and the same budget, for a key that is made later. */
    order(actor: Actor, { name, ...request }: NewKey): Result<KeyOrder, Problem> {
      const grant = paid(actor, request);
      const { userId, actor: person, grantable } = actor;
      return grant.ok ? ok({ userId, actor: person, grantable, name, ...request }) : grant;
    },

    /** The key of an order, not stored yet; a problem if a ceiling was lowered meanwhile. */
    mint({ name, userId, actor, grantable, ...request }: KeyOrder, caller: Caller): Result<MadeKey, Problem> {
      const grant = granted({ ...caller, userId, actor, grantable }, request);
      return grant.ok ? ok(made(userId, name, grant.value)) : grant;
    },

    /**
     * Gives the actor's key a new secret. The old one goes on until `overlapHours` after the new one's first use; with 0
     * it ends now. `expiresInDays`: a new expiry for the key. Rotating and creating share one budget.
     */
    async rotate(
      actor: Actor,
      keyId: string,
      { overlapHours, expiresInDays }: { readonly overlapHours: number; readonly expiresInDays?: number | undefined },
    ): Promise<Result<MadeKey, Problem>> {
      if (!isIdShaped(keyId)) return err({ code: 'key_not_found' });
      const lasting = granted(actor, { scopes: [], expiresInDays });
      if (!lasting.ok) return lasting;
      /** A refusal, taken from the person's budget of requests that change nothing. */
      const missed = (problem: Problem): Result<never, Problem> => {
        const miss = misses.take(actor);
        return miss.ok ? err(problem) : miss;
      };
      const overlapMs = overlapHours * MS_PER_HOUR;
      for (let tries = 0; tries < ROTATE_TRIES; tries += 1) {
        // Read first: who may not is told why, and a late duplicate of the write doesn't rotate what this one has made.
        const record = await store.findOwn(actor.userId, keyId);
        if (record === null) return missed({ code: 'key_not_found' });
        if (!granted(actor, { scopes: record.scopes }).ok) {
          return err({ code: 'scope_not_granted', grantable: actor.grantable ?? ceilings.scopes ?? [] });
        }
        const nowMs = clock.nowMs();
        const refusal = rotationRefusal(record, overlapMs, nowMs);
        if (refusal !== null) return missed(refusal);
        const taken = creations.take(actor);
        if (!taken.ok) return taken;
        const key = mintKey(keyPrefix, production, random);
        const hash = hashKey(sha256, key);
        const expiresAtMs = expiresInDays === undefined ? null : Math.round(nowMs + expiresInDays * MS_PER_DAY);
        const next = { hash, overlapMs, expiresAtMs };
        const rotated = await store.rotate(record, next, nowMs, originOf('tool', actor, actor.actor));
        if (!rotated) continue; // another caller has changed it meanwhile
        await refresh();
        const fingerprint = fingerprintOf(overlapMs > 0 ? record.keyHash : hash);
        log.info('API key rotated', { ...actorFields(actor), keyId, fingerprint });
        return ok({ record: expiresAtMs === null ? record : { ...record, expiresAtMs }, key });
      }
      return err({ code: 'overloaded' });
    },
  };
}

export function logCreated(log: Log, record: ApiKeyRecord, actor: RequestIds & Pick<Actor, 'userId' | 'actor'>): void {
  const { id: keyId, keyHash, resource } = record;
  const fingerprint = fingerprintOf(keyHash);
  log.info('API key created', { ...actorFields(actor), keyId, fingerprint, ...(resource !== null && { resource }) });
}
