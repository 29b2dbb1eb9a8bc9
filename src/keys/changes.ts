// Changes existing keys: revokes, deletes, renames, sets scopes, and ends leaked secrets. Requests that change nothing
// are rate-limited. After an edit, whoever made it, this process sees it, the log says it, and the key is shown.

import { OVERLOADED, type Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock, Sha256 } from '../ground/runtime.ts';
import type { InfoEvent } from '../watch/events.ts';
import type { Log } from '../watch/log.ts';
import { type Actor, actorFields, type Caller, type Origin, type OriginOf, type PersonBudget } from './actor.ts';
import type { Feed } from './feed.ts';
import { checkFields, type GrantFor } from './grants.ts';
import { type OwnKey, ownKeys, type ShownWith } from './listing.ts';
import {
  fingerprintOf,
  hasEnded,
  hashKey,
  isForeignShaped,
  isIdShaped,
  isKeyShaped,
  KEY_NOT_FOUND,
  type ListedKey,
  type PresentedKey,
} from './record.ts';
import type { Changed, DerivedKeys, KeyEdit, KeyStore } from './store.ts';
import type { UnknownKeys } from './unknown-keys.ts';

/** How often a change is tried: of so many concurrent ones none is refused. */
const TRIES_MAX = 100;

/** Makes a change that depends on what was read (optimistic locking). `change` resolves with null if another got in first. */
export async function changeAsRead<T>(change: () => Promise<Result<T, Problem> | null>): Promise<Result<T, Problem>> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const changed = await change();
    if (changed !== null) return changed;
  }
  return err(OVERLOADED);
}

export interface ChangeParts {
  readonly store: KeyStore;
  readonly derived: DerivedKeys;
  /** Its `refresh` lets this process see a change before the response. */
  readonly feed: Feed;
  readonly clock: Clock;
  readonly log: Log;
  readonly originOf: OriginOf;
}

export interface MadeEdit {
  /** The key as it now is. */
  readonly key: ListedKey;
  /** What the edit changed; null: nothing was different. */
  readonly changed: Changed | null;
}

/**
 * Edits a key of an owner (null: anybody's) as it was read and checked, so that nobody gets back what another takes away
 * meanwhile.
 */
export async function editChecked(
  store: KeyStore,
  owner: string | null,
  keyId: string,
  edit: KeyEdit,
  origin: Origin,
  check: (key: ListedKey) => Result<unknown, Problem>,
): Promise<Result<MadeEdit, Problem>> {
  let key = await store.findOwn(owner, keyId);
  return changeAsRead<MadeEdit>(async () => {
    if (key === null) return err(KEY_NOT_FOUND);
    const checked = check(key);
    if (!checked.ok) return checked;
    const { lastSeq } = key;
    const changed = await store.edit(owner, keyId, edit, origin, lastSeq);
    key = await store.findOwn(owner, keyId);
    if (key === null) return err(KEY_NOT_FOUND);
    return changed !== null || key.lastSeq === lastSeq ? ok({ key, changed }) : null;
  });
}

export interface EditShownWith extends ShownWith, Pick<ChangeParts, 'feed' | 'clock' | 'log'> {}

/** Lets this process see an edit, logs it, and returns the key as it is shown. */
export async function showEdit(actor: Actor, { key, changed }: MadeEdit, options: EditShownWith): Promise<OwnKey> {
  const { feed, clock, log } = options;
  await feed.refresh();
  log.info('API key updated', { ...actorFields(actor), keyId: key.id, ...(changed ?? { changed: false }) });
  const [shown] = await ownKeys([key], options, clock.nowMs());
  return shown as OwnKey; // one for each key
}

export interface ChangesOptions extends ChangeParts {
  readonly grantFor: GrantFor;
  /** Limits requests that change nothing. */
  readonly failedChanges: PersonBudget;
  /**
   * Limits what could add events without end: new secrets, and owners' edits. Revoking and deleting need no limit:
   * each happens at most once per key, and a first use once per new secret. So whoever holds a user's token can't keep
   * the owner from revoking.
   */
  readonly creations: PersonBudget;
}

export function createChanges(options: ChangesOptions) {
  const { store, derived, feed, clock, log, originOf, grantFor, failedChanges, creations } = options;

  async function isActive({ userId }: Actor, keyId: string): Promise<boolean> {
    if ((await store.findOwn(userId, keyId))?.active) return true;
    const [child] = await derived.findChildren({ id: keyId }, userId);
    return child?.endedAtMs === null && !hasEnded(child.expiresAtMs, clock.nowMs());
  }

  /** Makes a change, within the budget of those that change nothing; lets this process see it, and logs it. */
  async function changeAndLog(
    event: InfoEvent,
    actor: Actor,
    keyId: string,
    change: (origin: Origin) => Promise<Changed | null>,
  ): Promise<Result<void, Problem>> {
    // Other text reaches neither the store, which might truncate it to an id, nor the log: it may be a key.
    if (!isIdShaped(keyId)) {
      log.info(event, { ...actorFields(actor), changed: false });
      return ok(undefined);
    }
    // Over the budget, a read decides: nobody can delay others with writes that change nothing, and active keys can
    // still be revoked.
    if (failedChanges.isUsedUp(actor) && !(await isActive(actor, keyId))) return failedChanges.take(actor);
    const changed = await change(originOf('tool', actor, actor.actor));
    if (changed === null) failedChanges.take(actor);
    await feed.refresh(); // even if nothing changed: another process, or an earlier try, may have changed the key
    log.info(event, { ...actorFields(actor), keyId, ...(changed ?? { changed: false }) });
    return ok(undefined);
  }

  const end = (event: InfoEvent, how: 'deactivate' | 'remove', actor: Actor, keyId: string) =>
    changeAndLog(event, actor, keyId, async (origin) => {
      const ended = await store[how](actor.userId, keyId, origin);
      if (ended !== null) return ended;
      const [child] = await derived.endChildren({ id: keyId }, actor.userId, clock.nowMs(), origin);
      return child === undefined ? null : { fingerprint: fingerprintOf(child.keyHash) };
    });

  return {
    /** Succeeds without a change if the key doesn't exist or isn't the actor's, so nobody learns which ids exist. */
    revoke: (actor: Actor, keyId: string) => end('API key revoked', 'deactivate', actor, keyId),
    /** Revokes a key like `revoke`, and removes its record. */
    delete: (actor: Actor, keyId: string) => end('API key deleted', 'remove', actor, keyId),

    /** Changes the given fields that are not empty, within what the actor may grant. None of our tools calls it. */
    async update(
      actor: Actor,
      keyId: string,
      { name, scopes }: { readonly name?: string; readonly scopes?: readonly string[] },
    ): Promise<Result<void, Problem>> {
      const fields = { ...(name && { name }), ...(scopes && scopes.length > 0 && { scopes }) };
      if (Object.keys(fields).length === 0) return ok(undefined);
      const possible = checkFields(fields);
      if (!possible.ok) return possible;
      const grant = grantFor(actor, { scopes: fields.scopes ?? [] });
      if (!grant.ok) return grant;
      const taken = creations.take(actor);
      if (!taken.ok) return taken;
      return changeAndLog('API key updated', actor, keyId, (origin) => store.edit(actor.userId, keyId, fields, origin));
    },
  };
}

/**
 * Ends leaked secrets for anyone who presents them: possession is proof enough, since ending a secret does less harm
 * than using it. The secret in force ends its key; the next or previous one of a rotation ends only itself. Texts that
 * are no secrets are ignored. After an error, the secrets may still be valid.
 */
export function createRevokeSecrets(
  unknownKeys: UnknownKeys, // reads from the primary: a replica may still accept a key that has ended
  { store, derived, feed, clock, sha256, log, originOf }: ChangeParts & { readonly sha256: Sha256 },
) {
  async function endAll(keys: readonly PresentedKey[], caller: Caller): Promise<void> {
    const [first] = keys;
    if (first === undefined) return;
    const hashes = keys.map(({ presentedHash }) => presentedHash);
    const [nowMs, origin] = [clock.nowMs(), originOf('possession', caller)];
    await Promise.all([
      store.revokeByHashes(hashes, nowMs, origin, first.userId),
      derived.endChildren({ keyHash: hashes }, null, nowMs, origin),
    ]);
    await feed.refresh();
    for (const { id: keyId, userId, keyHash, presented, parent } of keys) {
      const fingerprint = fingerprintOf(keyHash);
      const which = parent === null ? { possessed: presented } : { parentId: parent.id };
      log.info('API key revoked', { requestId: caller.requestId, keyId, userId, fingerprint, ...which });
    }
  }

  return async (texts: readonly string[], caller: Caller): Promise<Result<void, Problem>> => {
    // What an outage hides may be a key: nobody is told that it has ended.
    if (texts.some(isForeignShaped) && !feed.isCurrentForUse()) await feed.ensureFresh();
    const secrets: string[] = [];
    for (const text of new Set(texts)) if (isKeyShaped(text) || (await feed.mayBeForeign(text))) secrets.push(text);
    const finding = secrets.map(async (secret) => ({
      secret,
      found: await unknownKeys.find(hashKey(sha256, secret), caller),
    }));
    const nowMs = clock.nowMs();
    const keys: PresentedKey[] = [];
    for (const { secret, found } of await Promise.all(finding)) {
      if (!found.ok) return found;
      const { record } = found.value;
      if (record !== null && isEndable(record, secret, nowMs)) keys.push(record);
    }
    await endAll(keys, caller);
    return ok(undefined);
  };
}

/**
 * Returns whether presenting this secret may end its key. Expired keys can still be ended, and so can keys of a blocked
 * owner, which would work again after the block. A secret of another form must be recorded as such.
 */
const isEndable = (key: PresentedKey, secret: string, nowMs: number): boolean =>
  key.active && !hasEnded(key.secretEndsAtMs, nowMs) && (isKeyShaped(secret) || key.foreignHash === key.presentedHash);
