// Lets owners edit a key: rename it, drop scopes, end it earlier. That grants nothing, so it needs no right to grant.

import { invalidInput, type Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { MS_PER_DAY } from '../../ground/runtime.ts';
import type { Actor, OriginOf, PersonBudget } from '../../keys/actor.ts';
import { type EditShownWith, editChecked, showEdit } from '../../keys/changes.ts';
import type { OwnKey } from '../../keys/listing.ts';
import { hasEnded, isIdShaped, type ListedKey } from '../../keys/record.ts';
import type { KeyEdit, KeyStore } from '../../keys/store.ts';

/** An edit as a person requests it. Fields left out stay. */
export interface AskedEdit {
  readonly name?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  /** Days from now; fractions allowed. */
  readonly expiresInDays?: number | undefined;
}

export interface OwnEditsOptions extends EditShownWith {
  readonly store: KeyStore;
  readonly originOf: OriginOf;
  /** Limits what could add events without end. */
  readonly creations: PersonBudget;
}

/** Creates the function that edits the actor's key and returns its new state. It shares the budget of creations. */
export function createOwnEdits(options: OwnEditsOptions) {
  const { store, clock, originOf, creations } = options;
  return async (actor: Actor, keyId: string, asked: AskedEdit): Promise<Result<OwnKey, Problem>> => {
    if (!isIdShaped(keyId)) return err({ code: 'key_not_found' }); // it may be a key
    const taken = creations.take(actor);
    if (!taken.ok) return taken;
    const { expiresInDays: days, ...given } = asked;
    const edit = { ...given, expiresAtMs: days && Math.round(clock.nowMs() + days * MS_PER_DAY) };
    const edited = await editChecked(
      () => store.findOwn(actor.userId, keyId),
      (key) => narrower(key, edit, clock.nowMs()),
      (read) => store.edit(actor.userId, keyId, edit, originOf('page', actor, actor.actor), read),
    );
    return edited.ok ? showEdit(actor, edited.value, options) : edited;
  };
}

const MORE =
  'A key gets neither more scopes nor a later end here: rotate it with another expiry, make a new key, or ask an admin';

/** Returns why the key may not be changed like this. */
function narrower(key: ListedKey, { scopes = [], expiresAtMs }: KeyEdit, nowMs: number): Result<void, Problem> {
  if (!key.active || hasEnded(key.expiresAtMs, nowMs)) return err({ code: 'key_not_active' });
  if (!scopes.every((scope) => key.scopes.includes(scope))) {
    return err(invalidInput('scopes', 'Expected scopes that it has', MORE));
  }
  if (expiresAtMs != null && key.expiresAtMs !== null && expiresAtMs > key.expiresAtMs) {
    return err(invalidInput('expiresInDays', 'Expected an earlier end than it has', MORE));
  }
  return ok(undefined);
}
