// Lets owners edit a key: rename it, drop scopes, end it earlier. That grants nothing, so it needs no right to grant.

import type { Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { MS_PER_DAY } from '../../ground/runtime.ts';
import { hasSameScopes } from '../../ground/text.ts';
import type { Actor, OriginOf, PersonBudget } from '../../keys/actor.ts';
import { type EditShownWith, type MadeEdit, type OwnKey, showEdit } from '../../keys/listing.ts';
import { hasEnded, isIdShaped, type ListedKey } from '../../keys/record.ts';
import type { KeyStore, OwnEdit } from '../../keys/store.ts';

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

/** How often an edit is tried when concurrent changes get in first. */
const EDIT_TRIES = 10;

const NOT_FOUND = err({ code: 'key_not_found' } as const);

/** Creates the function that edits the actor's key and returns its new state. It shares the budget of creations. */
export function createOwnEdits(options: OwnEditsOptions) {
  const { store, clock, originOf, creations } = options;
  return async (actor: Actor, keyId: string, asked: AskedEdit): Promise<Result<OwnKey, Problem>> => {
    if (!isIdShaped(keyId)) return NOT_FOUND; // it may be a key
    const taken = creations.take(actor);
    if (!taken.ok) return taken;
    const edit = editOf(asked, clock.nowMs());
    for (let tries = 0; tries < EDIT_TRIES; tries += 1) {
      const edited = await tryToEdit(actor, keyId, edit);
      if (edited === 'overtaken') continue;
      return edited.ok ? showEdit(actor, edited.value, options) : edited;
    }
    return err({ code: 'overloaded' });
  };

  /** Tries the edit once. Returns `overtaken` if the key was refused as it was then, and has changed since. */
  async function tryToEdit(
    actor: Actor,
    keyId: string,
    edit: OwnEdit,
  ): Promise<Result<MadeEdit, Problem> | 'overtaken'> {
    const nowMs = clock.nowMs();
    const changed = await store.narrow(actor.userId, keyId, edit, nowMs, originOf('page', actor, actor.actor));
    const key = await store.findOwn(actor.userId, keyId);
    if (key === null) return NOT_FOUND;
    const refusal = changed === null ? refusalOf(key, edit, nowMs) : null;
    if (refusal !== null) return err(refusal);
    return changed !== null || isSo(key, edit) ? ok({ key, changed }) : 'overtaken';
  }
}

const editOf = ({ name, scopes, expiresInDays: days }: AskedEdit, nowMs: number): OwnEdit => ({
  name,
  scopes,
  expiresAtMs: days === undefined ? undefined : Math.round(nowMs + days * MS_PER_DAY),
});

const isSo = (key: ListedKey, { name = key.name, scopes = key.scopes, expiresAtMs }: OwnEdit) =>
  name === key.name && hasSameScopes(scopes, key.scopes) && (expiresAtMs ?? key.expiresAtMs) === key.expiresAtMs;

const MORE =
  'A key gets neither more scopes nor a later end here: rotate it with another expiry, make a new key, or ask an admin';

/** Returns why the key may not be changed like this; null: it may. */
function refusalOf(key: ListedKey, { scopes = [], expiresAtMs }: OwnEdit, nowMs: number): Problem | null {
  if (!key.active || hasEnded(key.expiresAtMs, nowMs)) return { code: 'key_not_active' };
  if (!scopes.every((scope) => key.scopes.includes(scope))) return tooMuch('scopes', 'Expected scopes that it has');
  if (expiresAtMs !== undefined && key.expiresAtMs !== null && expiresAtMs > key.expiresAtMs) {
    return tooMuch('expiresInDays', 'Expected an earlier end than it has');
  }
  return null;
}

const tooMuch = (path: string, message: string): Problem => ({
  code: 'invalid_input',
  detail: MORE,
  issues: [{ path, message }],
});
