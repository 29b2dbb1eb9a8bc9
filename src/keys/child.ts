// What a child is: a key that another key, its parent, has made, and that ends with the secret which made it. Pure.

import type { KeyRefusal } from '../ground/problem.ts';
import { hasEnded, type PresentedKey, refusalAt } from './record.ts';

/** The scope of keys that may have children. No child has it. */
export const DELEGATE = 'delegate';

export interface ChildRecord {
  /** Its id, which has the form of a key's. */
  readonly id: string;
  readonly userId: string;
  /** The hash of its secret, which has the form of a key's. */
  readonly keyHash: string;
  readonly parentId: string;
  /** The hash of the parent's secret that made it. */
  readonly parentHash: string;
  readonly name: string;
  readonly scopes: readonly string[];
  /** The one server that it is good for; null: any. */
  readonly resource: string | null;
  readonly createdAtMs: number;
  /** Last millisecond of its own life. It may end earlier, with its parent; see `endsAtMs`. */
  readonly expiresAtMs: number;
  /** When it was ended alone; null: nobody has done that. */
  readonly endedAtMs: number | null;
}

/** Returns why a child is refused by itself; null: it isn't. */
export function ownRefusalAt({ endedAtMs, expiresAtMs }: ChildRecord, nowMs: number): KeyRefusal | null {
  if (endedAtMs !== null) return 'revoked';
  return hasEnded(expiresAtMs, nowMs) ? 'expired' : null;
}

/** Returns why a child's parent, as found by the secret that made the child, lets it do nothing; null: it doesn't. */
export function parentRefusalAt(child: ChildRecord, parent: PresentedKey | null, nowMs: number): KeyRefusal | null {
  if (parent === null || parent.id !== child.parentId) return 'parent ended';
  return refusalAt(parent, nowMs) ?? (parent.scopes.includes(DELEGATE) ? null : 'parent ended');
}

/** Returns the scopes that a child has now: none that its parent lacks. */
export function scopesUnder({ scopes }: Pick<ChildRecord, 'scopes'>, parent: readonly string[]): readonly string[] {
  const isHeld = (scope: string) => scope !== DELEGATE && parent.includes(scope);
  return scopes.every(isHeld) ? scopes : scopes.filter(isHeld);
}

/** Returns the key whose limits and uses a call counts for: of a child, its parent. */
export const countedKeyId = ({
  keyId,
  parentId,
}: {
  readonly keyId: string;
  readonly parentId: string | null;
}): string => parentId ?? keyId;

/** Returns the earlier of two ends; null: none. */
export function earlier(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other;
  return Math.min(one, other);
}

/** Returns when a key, by the secret that was presented, ends as far as is known; null: it doesn't. */
export const endOf = ({ expiresAtMs, secretEndsAtMs }: PresentedKey): number | null =>
  earlier(expiresAtMs, secretEndsAtMs);
