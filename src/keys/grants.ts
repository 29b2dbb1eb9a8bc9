// What a key may be given: the ceilings of the configuration, and those of the person who asks. Pure.

import { err, ok, type Result } from '../lib/result.ts';
import type { InputIssue, Problem } from '../problem.ts';

export interface KeyCeilings {
  /** The scopes that exist; null: any. */
  readonly scopes: readonly string[] | null;
  /** The longest life of a key; null: keys need not expire. */
  readonly daysMax: number | null;
}

/** What a key is asked to have. */
export interface Wish {
  readonly scopes: readonly string[];
  /** Days, fractions allowed. */
  readonly expiresInDays?: number | undefined;
}

export interface Grant {
  readonly scopes: readonly string[];
  /** Null: never expires. */
  readonly expiresInDays: number | null;
}

/** Issues reported at once. Each names all scopes that exist. */
const ISSUES_MAX = 10;

/** `grantable`: the scopes that the person may give; null: any. A ceiling never lowers a wish for scopes: it refuses. */
export function grantOf(
  { scopes: existing, daysMax }: KeyCeilings,
  grantable: readonly string[] | null,
  { scopes, expiresInDays }: Wish,
): Result<Grant, Problem> {
  const issues: InputIssue[] = [];
  for (const [index, scope] of scopes.entries()) {
    if (existing === null || existing.includes(scope) || issues.length === ISSUES_MAX) continue;
    issues.push({ path: `scopes.${index}`, message: `Expected one of ${existing.join(', ')}` });
  }
  if (daysMax !== null && expiresInDays !== undefined && expiresInDays > daysMax) {
    issues.push({ path: 'expiresInDays', message: `Expected a number above 0 and at most ${daysMax}` });
  }
  if (issues.length > 0) return err({ code: 'invalid_input', issues });
  if (grantable !== null && !scopes.every((scope) => grantable.includes(scope))) {
    return err({ code: 'scope_not_granted', grantable });
  }
  return ok({ scopes, expiresInDays: expiresInDays ?? daysMax });
}
