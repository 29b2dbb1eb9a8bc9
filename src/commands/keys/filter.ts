// The options that say which keys a verb is about.

import type { KeyFilter } from '../../keys/admin.ts';
import { durationOf, timeOf } from './arguments.ts';

export const FILTER_OPTIONS = {
  user: { type: 'string' },
  scope: { type: 'string' },
  'created-after': { type: 'string' },
  'unused-for': { type: 'string' },
} as const;

/** With one that is for looking alone: nobody ends keys because they end soon. */
export const LIST_OPTIONS = { ...FILTER_OPTIONS, 'expires-within': { type: 'string' } } as const;

type FilterValues = { readonly [option in keyof typeof LIST_OPTIONS]?: string | undefined };

export function filterOf(values: FilterValues, nowMs: number): KeyFilter {
  const { user: owner, scope, 'created-after': after, 'unused-for': unused, 'expires-within': within } = values;
  return {
    owner,
    scope,
    createdFromMs: after === undefined ? undefined : timeOf('created-after', after),
    unusedSinceMs: unused === undefined ? undefined : nowMs - durationOf('unused-for', unused),
    expiresByMs: within === undefined ? undefined : nowMs + durationOf('expires-within', within),
  };
}
