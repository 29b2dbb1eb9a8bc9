// Defines what a child is: a key that another key, its parent, has made, and that ends with the secret that made it. Pure.

import { earlier, NEW_KEY, type PresentedKey } from '../../keys/record.ts';
import type { ChildRecord } from '../../keys/store.ts';

/** The scope that lets a key have children. No child has it. */
export const DELEGATE = 'delegate';

/** Returns the scopes that a child has now: only those that its parent still has. */
export function scopesUnder({ scopes }: Pick<ChildRecord, 'scopes'>, parent: readonly string[]): readonly string[] {
  const isHeld = (scope: string) => scope !== DELEGATE && parent.includes(scope);
  return scopes.every(isHeld) ? scopes : scopes.filter(isHeld);
}

/**
 * Returns a child as a key: with what both it and its parent have, and no longer than either. `found` is the key found
 * by the secret that made the child; null: no key has it any more. One parent may have many children, so they share its
 * strings.
 */
export function keyUnder(child: ChildRecord, found: PresentedKey | null): PresentedKey {
  const { id, keyHash, createdAtMs, name, expiresAtMs, endedAtMs } = child;
  const parent = found?.id === child.parentId ? found : null;
  const parentHash = found?.presentedHash ?? child.parentHash;
  return {
    ...NEW_KEY,
    id,
    userId: parent?.userId ?? child.userId,
    name: parent?.name === name ? parent.name : name,
    keyHash,
    presentedHash: keyHash,
    presented: 'in_force',
    scopes: parent === null ? child.scopes : scopesUnder(child, parent.scopes),
    active: endedAtMs === null && parent?.active !== false,
    barred: barOf(child, parent),
    createdAtMs,
    expiresAtMs: earlier(expiresAtMs, parent?.expiresAtMs ?? null),
    secretEndsAtMs: parent?.secretEndsAtMs ?? null,
    resource: child.resource ?? parent?.resource ?? null,
    metadata: parent?.metadata ?? null,
    ownerSettings: parent?.ownerSettings ?? null,
    parent: { id: parent?.id ?? child.parentId, keyHash: parentHash, key: found },
  };
}

/** Returns why a child is refused for its parent's sake, beside the ends that it shares; null: it isn't. */
function barOf(child: ChildRecord, parent: PresentedKey | null): PresentedKey['barred'] {
  if (parent === null) return 'parent ended';
  if (parent.barred !== null) return parent.barred;
  const { resource } = child;
  const isElsewhere = resource !== null && parent.resource !== null && resource !== parent.resource;
  return mayDelegate(parent) && !isElsewhere ? null : 'parent ended';
}

/** Returns whether what was presented of a key may have children: a rule may, whoever made it said so. */
const mayDelegate = ({ presented, scopes }: PresentedKey): boolean => presented === 'rule' || scopes.includes(DELEGATE);
