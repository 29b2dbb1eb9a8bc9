// The scope guard: every required scope must be held, by exact string. Comes after a guard that adds `auth`.

import { err } from '../ground/result.ts';
import type { RequestIds } from '../keys/actor.ts';
import type { Log } from '../watch/log.ts';
import { type Guard, PASS } from './guard.ts';

export interface ScopedCall extends RequestIds {
  /** Without `scopes` none are held. The ids are for the log. */
  readonly auth: { readonly scopes?: readonly string[]; readonly keyId?: string; readonly subject?: string };
}

export function scopesGuard(log: Log) {
  return (...required: readonly string[]): Guard<ScopedCall> => {
    const decide: Guard<ScopedCall> = ({ requestId, traceId, auth }) => {
      const held = auth.scopes ?? [];
      if (holds(held, required)) return PASS;
      const { keyId, subject: userId } = auth;
      log.warn('Insufficient scopes', { requestId, traceId, keyId, userId, required, held });
      return err({ code: 'insufficient_scope', required });
    };
    return Object.assign(decide, { requiredScopes: required });
  };
}

function holds(held: readonly string[], required: readonly string[]): boolean {
  for (const scope of required) if (!held.includes(scope)) return false;
  return true;
}
