// Lets owners edit a key: rename it, drop scopes, end it earlier. That grants nothing, so it needs no right to grant.

import { invalidInput, type Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import { MS_PER_DAY } from '../../ground/runtime.ts';
import { type Actor, type Origin, type OriginOf, type PersonBudget, personOf } from '../../keys/actor.ts';
import { changeAsRead, type EditShownWith, type MadeEdit, showEdit } from '../../keys/changes.ts';
import type { OwnKey } from '../../keys/listing.ts';
import { hasEnded, isIdShaped, type ListedKey } from '../../keys/record.ts';
import type { KeyStore } from '../../keys/store.ts';
import type { Database, StoreOf } from '../../store/database.ts';
import { changeKey } from '../../store/key-changes.ts';
import { compared, scopesJson } from '../../store/rows.ts';

/** An edit as a person requests it. Fields left out stay. */
export interface AskedEdit {
  readonly name?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  /** Days from now; fractions allowed. */
  readonly expiresInDays?: number | undefined;
}

/** What it changes of the key. */
interface OwnEdit {
  readonly name?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly expiresAtMs?: number | undefined;
}

export interface OwnEditsOptions extends EditShownWith {
  readonly store: KeyStore;
  readonly storeOf: StoreOf;
  readonly originOf: OriginOf;
  /** Limits what could add events without end. */
  readonly creations: PersonBudget;
}

const NOT_FOUND = err({ code: 'key_not_found' } as const);

/** Creates the function that edits the actor's key and returns its new state. It shares the budget of creations. */
export function createOwnEdits(options: OwnEditsOptions) {
  const { store, storeOf, clock, originOf, creations } = options;
  const { narrow } = storeOf(createNarrow);
  return async (actor: Actor, keyId: string, asked: AskedEdit): Promise<Result<OwnKey, Problem>> => {
    if (!isIdShaped(keyId)) return NOT_FOUND; // it may be a key
    const taken = creations.take(actor);
    if (!taken.ok) return taken;
    const edit = editOf(asked, clock.nowMs());
    const edited = await changeAsRead(() => tryToEdit(actor, keyId, edit));
    return edited.ok ? showEdit(actor, edited.value, options) : edited;
  };

  /** Tries the edit once. Returns null if the key was refused as it was then, and has changed since. */
  async function tryToEdit(actor: Actor, keyId: string, edit: OwnEdit): Promise<Result<MadeEdit, Problem> | null> {
    const nowMs = clock.nowMs();
    const changed = await narrow(actor, keyId, edit, nowMs, originOf('page', actor, actor.actor));
    const key = await store.findOwn(actor.userId, keyId);
    if (key === null) return NOT_FOUND;
    const refusal = changed === null ? refusalOf(key, edit, nowMs) : null;
    if (refusal !== null) return err(refusal);
    return changed !== null || isSo(key, edit) ? ok({ key, changed }) : null;
  }
}

// The current row decides what may change, so scopes that an admin removes meanwhile stay removed.
const NARROW = `UPDATE api_keys SET name = coalesce(?4, name), scopes = coalesce(?5, scopes),
expires_at_ms = coalesce(?6, expires_at_ms), changed_by = ?3
WHERE id = ?1 AND user_id = ?2 AND active = 1 AND (expires_at_ms IS NULL OR expires_at_ms >= ?7)
AND (name, ${compared('scopes')}, expires_at_ms)
  IS NOT (coalesce(?4, name), ${compared('scopes', 'coalesce(?5, scopes)')}, coalesce(?6, expires_at_ms))
AND (?6 IS NULL OR expires_at_ms IS NULL OR expires_at_ms >= ?6)
AND NOT EXISTS (SELECT 1 FROM json_each(coalesce(?5, '[]')) w
  WHERE w.value NOT IN (SELECT value FROM json_each(api_keys.scopes))) RETURNING key_hash`;

const createNarrow = (db: Database) => ({
  /** Changes the given fields of an active key, without adding scopes or a later end. Null: refused, or no difference. */
  narrow(actor: Actor, keyId: string, { name, scopes, expiresAtMs }: OwnEdit, nowMs: number, origin: Origin) {
    const given = [name ?? null, scopes ? scopesJson(scopes) : null, expiresAtMs ?? null];
    const args = [keyId, actor.userId, JSON.stringify(origin), ...given, nowMs];
    return changeKey(db, keyId, origin, { sql: NARROW, args, fairnessKey: personOf(actor) });
  },
});

const editOf = ({ name, scopes, expiresInDays: days }: AskedEdit, nowMs: number): OwnEdit => ({
  name,
  scopes,
  expiresAtMs: days === undefined ? undefined : Math.round(nowMs + days * MS_PER_DAY),
});

/** Returns whether two lists have the same scopes, in whatever order. */
const hasSameScopes = (one: readonly string[], other: readonly string[]): boolean =>
  new Set(one).symmetricDifference(new Set(other)).size === 0;

const isSo = (key: ListedKey, { name = key.name, scopes = key.scopes, expiresAtMs }: OwnEdit) =>
  name === key.name && hasSameScopes(scopes, key.scopes) && (expiresAtMs ?? key.expiresAtMs) === key.expiresAtMs;

const MORE =
  'A key gets neither more scopes nor a later end here: rotate it with another expiry, make a new key, or ask an admin';

/** Returns why the key may not be changed like this; null: it may. */
function refusalOf(key: ListedKey, { scopes = [], expiresAtMs }: OwnEdit, nowMs: number): Problem | null {
  if (!key.active || hasEnded(key.expiresAtMs, nowMs)) return { code: 'key_not_active' };
  if (!scopes.every((scope) => key.scopes.includes(scope))) {
    return invalidInput('scopes', 'Expected scopes that it has', MORE);
  }
  if (expiresAtMs !== undefined && key.expiresAtMs !== null && expiresAtMs > key.expiresAtMs) {
    return invalidInput('expiresInDays', 'Expected an earlier end than it has', MORE);
  }
  return null;
}
