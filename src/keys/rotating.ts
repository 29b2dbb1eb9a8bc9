// Rotates an owner's key: gives it a new secret, which is put in force on its first use. Reads the key first, so that a
// refusal has a reason, and so that a late duplicate of the write doesn't rotate the key again.

import { singleFlights } from '../ground/cache.ts';
import { invalidInput, type Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { MS_PER_HOUR } from '../ground/runtime.ts';
import { type Actor, actorFields, type Caller } from './actor.ts';
import { type ChangeParts, type ChangesOptions, changeAsRead } from './changes.ts';
import { checkFields, endAfter, type KeyCeilings, OVERLAP_HOURS_MAX } from './grants.ts';
import type { KnownKey, KnownKeys } from './known-keys.ts';
import {
  type ApiKeyRecord,
  fingerprintOf,
  isIdShaped,
  KEY_NOT_FOUND,
  type MadeKey,
  type MintOptions,
  mintKey,
  rotationRefusal,
} from './record.ts';

const NO_OVERLAP = err(invalidInput('overlapHours', `Expected a whole number from 0 to ${OVERLAP_HOURS_MAX}`));

export interface RotateOptions extends ChangesOptions, MintOptions {
  readonly keyCeilings: KeyCeilings;
}

export interface RotationRequest {
  readonly overlapHours: number;
  /** A new expiry for the key; undefined: unchanged. */
  readonly expiresInDays?: number | undefined;
}

/** Creates the function that rotates a key. It shares the budget of creations. */
export function createRotate(options: RotateOptions) {
  const { store, derived, feed, clock, log, originOf, grantFor, failedChanges, creations, keyCeilings } = options;

  /** Returns a refusal, and charges the person's budget for requests that change nothing. */
  function refuseAndCharge(actor: Actor, problem: Problem): Result<never, Problem> {
    const taken = failedChanges.take(actor);
    return taken.ok ? err(problem) : taken;
  }

  /** Returns the key's record if the actor may rotate it now, and charges the budget of creations. */
  async function rotatable(actor: Actor, keyId: string, overlapMs: number) {
    const record = await store.findOwn(actor.userId, keyId);
    if (record === null) {
      const [child] = await derived.findChildren({ id: keyId }, actor.userId);
      return refuseAndCharge(actor, child === undefined ? KEY_NOT_FOUND : { code: 'key_is_child' });
    }
    if (!grantFor(actor, { scopes: record.scopes }).ok) {
      return err<Problem>({ code: 'scope_not_granted', grantable: actor.grantable ?? keyCeilings.scopes ?? [] });
    }
    const refusal = rotationRefusal(record, overlapMs, clock.nowMs());
    if (refusal !== null) return refuseAndCharge(actor, refusal);
    const taken = creations.take(actor);
    return taken.ok ? ok(record) : taken;
  }

  /** Gives the key its next secret. Returns null if the key has changed meanwhile. */
  async function replaceSecret(
    actor: Actor,
    record: ApiKeyRecord,
    { overlapMs, expiresInDays }: { overlapMs: number; expiresInDays: number | undefined },
  ): Promise<MadeKey | null> {
    const nowMs = clock.nowMs();
    const { key, keyHash: hash } = mintKey(options);
    const expiresAtMs = expiresInDays === undefined ? null : endAfter(expiresInDays, nowMs);
    const next = { hash, overlapMs, expiresAtMs };
    const rotated = await store.rotate(record, next, nowMs, originOf('tool', actor, actor.actor));
    if (!rotated) return null;
    await feed.refresh();
    const fingerprint = fingerprintOf(overlapMs > 0 ? record.keyHash : hash);
    log.info('API key rotated', { ...actorFields(actor), keyId: record.id, fingerprint });
    return { record: expiresAtMs === null ? record : { ...record, expiresAtMs }, key };
  }

  /**
   * Gives the actor's key a new secret. The old one is accepted until `overlapHours` after the new one's first use;
   * with 0 it ends now.
   */
  return async (actor: Actor, keyId: string, request: RotationRequest): Promise<Result<MadeKey, Problem>> => {
    const { overlapHours, expiresInDays } = request;
    if (!isIdShaped(keyId)) return err(KEY_NOT_FOUND);
    const possible = checkFields({ expiresInDays });
    if (!possible.ok) return possible;
    if (!(Number.isInteger(overlapHours) && overlapHours >= 0 && overlapHours <= OVERLAP_HOURS_MAX)) return NO_OVERLAP;
    const expiry = grantFor(actor, { scopes: [], expiresInDays });
    if (!expiry.ok) return expiry;
    const overlapMs = overlapHours * MS_PER_HOUR;
    return changeAsRead(async () => {
      const found = await rotatable(actor, keyId, overlapMs);
      if (!found.ok) return found;
      const rotated = await replaceSecret(actor, found.value, { overlapMs, expiresInDays });
      return rotated && ok(rotated);
    });
  };
}

// The first use of a new secret is durably written before the secret is accepted.

/** A record read after the first use of its next secret was written. */
interface FirstUse {
  readonly found: KnownKey | null;
  /** When the last poll before that read began (monotonic). */
  readonly polledAtMs: number;
}

/**
 * Creates the function that puts a next secret in force, and returns the key's new state. Concurrent first uses share
 * one write. Throws a StoreOutage if the first use could not be written.
 */
export function createUseFirst({ store, feed, clock, log, originOf }: ChangeParts, known: KnownKeys) {
  const underWay = singleFlights<FirstUse>();
  // Callers after a change don't join a first use that began before it.
  feed.subscribe({ onChanges: underWay.forgetAll, onReset: underWay.forgetAll });

  async function promote(key: KnownKey, caller: Caller): Promise<FirstUse> {
    const { id: keyId, userId, presentedHash } = key;
    const promoted = await store.promote(key, clock.nowMs(), originOf('use', caller));
    await feed.refresh();
    const { polledAtMs } = feed; // taken before the read: a later poll proves nothing about what was read
    const read = await known.readAll([presentedHash], 'primary'); // a replica may not have it yet
    if (promoted !== null) {
      const { requestId, traceId } = caller;
      const fingerprint = fingerprintOf(presentedHash);
      log.info('API key rotation completed', { requestId, traceId, keyId, userId, fingerprint });
    }
    return { found: read.get(presentedHash) ?? null, polledAtMs };
  }

  return (key: KnownKey, caller: Caller): Promise<FirstUse> =>
    underWay.run(key.presentedHash, () => promote(key, caller));
}
