// Defines a child: a key that another key, its parent, has made, and that ends with the secret that made it. Pure.

import type { KeyRefusal } from '../ground/problem.ts';
import { hasEnded, type PresentedKey, refusalAt } from './record.ts';

/** The scope that lets a key have children. No child has it. */
export const DELEGATE = 'delegate';

export interface ChildRecord {
  /** Its id, which has the form of a key's. */
  readonly id: string;
  readonly userId: string;
  /** The hash of its secret, which has the form of a key's. */
  readonly keyHash: string;
  readonly parentId: string;
  /** The hash of the parent secret that made it. */
  readonly parentHash: string;
  readonly name: string;
  readonly scopes: readonly string[];
  /** The one server that it is good for; null: any. */
  readonly resource: string | null;
  readonly createdAtMs: number;
  /** Last millisecond of its own life. Its parent may end it earlier (verify.ts). */
  readonly expiresAtMs: number;
  /** When it was ended on its own; null: it wasn't. */
  readonly endedAtMs: number | null;
}

/** Returns why a child is refused, its parent aside; null: it isn't. */
export function ownRefusalAt({ endedAtMs, expiresAtMs }: ChildRecord, nowMs: number): KeyRefusal | null {
  if (endedAtMs !== null) return 'revoked';
  return hasEnded(expiresAtMs, nowMs) ? 'expired' : null;
}

/** Returns why a child's parent, found by the secret that made the child, gives it no access; null: it does. */
export function parentRefusalAt(child: ChildRecord, parent: PresentedKey | null, nowMs: number): KeyRefusal | null {
  if (parent === null || parent.id !== child.parentId) return 'parent ended';
  return refusalAt(parent, nowMs) ?? (parent.scopes.includes(DELEGATE) ? null : 'parent ended');
}

/** Returns the scopes that a child has now: only those that its parent still has. */
export function scopesUnder({ scopes }: Pick<ChildRecord, 'scopes'>, parent: readonly string[]): readonly string[] {
  const isHeld = (scope: string) => scope !== DELEGATE && parent.includes(scope);
  return scopes.every(isHeld) ? scopes : scopes.filter(isHeld);
}

/** Returns the key that a call counts for: a child's calls count for its parent. */
export const countedKeyId = ({
  keyId,
  parentId,
}: {
  readonly keyId: string;
  readonly parentId: string | null;
}): string => parentId ?? keyId;

/** Returns the earlier of two ends; null: no end. */
export function earlier(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other;
  return Math.min(one, other);
}

/** Returns when the presented secret of a key ends, as far as is known; null: never. */
export const endOf = ({ expiresAtMs, secretEndsAtMs }: PresentedKey): number | null =>
  earlier(expiresAtMs, secretEndsAtMs);
