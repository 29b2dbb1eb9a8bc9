// The guard for API keys: finds the presented key, has it verified, and adds its identity. proof.ts looks again before
// anything leaves.

import type { Problem } from '../ground/problem.ts';
import { type Awaitable, chain, err, ok, type Result } from '../ground/result.ts';
import type { Caller, RequestIds } from '../keys/actor.ts';
import { isJwtShaped, isKeyShaped } from '../keys/record.ts';
import type { KeyIdentity, Verified } from '../keys/verify.ts';
import type { Log, LogRepeated } from '../watch/log.ts';
import type { Credentials, Refused } from '../web/context.ts';
import type { Call, Confirm } from './call.ts';
import type { Guard } from './guard.ts';

export interface KeyAuth {
  readonly auth: KeyIdentity;
}

export type VerifyKey = (token: string, caller: Caller) => Awaitable<Verified>;

/** Returns the key of the first place that holds one, even when it is wrong and a later one is right. */
export const presentedKey = ({ xApiKey, bearer, metaApiKey }: Credentials): string | null =>
  xApiKey ?? bearer ?? metaApiKey;

/** Returns what logs each use of a key. */
export const logsUses = (log: Log): LogRepeated => log.repeated('API key authentication successful');

/**
 * Creates the guard. `confirm` verifies a key again without counting a use. The proof isn't renewed if it is left out.
 */
export function apiKeyGuard(
  verify: VerifyKey,
  log: Log,
  confirm?: VerifyKey,
  logUse = logsUses(log),
): Guard<Call, KeyAuth> {
  const confirmCall = confirm && confirmWith(confirm, log);
  function logged(verified: Verified, call: Call): Result<KeyAuth, Problem> {
    if (verified.ok) {
      const identified = identify(call, verified);
      if (confirmCall !== undefined) call.proved(verified.verifiedAtMs, confirmCall);
      const { keyId, subject: userId, parentId } = identified.auth;
      // Named by its owner too, whom a database shell may change.
      logUse(call, `${keyId} ${userId}`, { keyId, userId, parentId: parentId ?? undefined });
      return ok(identified);
    }
    const problem = withKindSent(verified.error, presentedKey(call.credentials) ?? '');
    call.refused = refusedKeyIn(problem);
    logRefused(log, problem, call);
    return err(problem);
  }
  const decide: Guard<Call, KeyAuth> = (call) => {
    const key = presentedKey(call.credentials);
    if (key === null) {
      const { lacksScheme } = call.credentials;
      log.warn('No API key provided', { requestId: call.requestId, traceId: call.traceId, lacksScheme });
      return err({ code: 'missing_api_key', ...(lacksScheme && { lacksScheme }) });
    }
    return chain(verify(key, call), logged, call);
  };
  return Object.assign(decide, { credential: 'api_key' as const });
}

/** Puts the key's identity on the call, as its latest proof says. Before that the key may have had more scopes. */
function identify(call: Call & { auth?: KeyIdentity }, verified: Verified & { readonly ok: true }): Call & KeyAuth {
  call.auth = verified.value;
  call.keyEndsAtMs = verified.endsAtMs;
  call.parentHash = verified.parentHash;
  return call as Call & KeyAuth;
}

const confirmWith =
  (confirm: VerifyKey, log: Log): Confirm =>
  async (call) => {
    const verified = await confirm(presentedKey(call.credentials) ?? '', call);
    if (verified.ok) {
      identify(call, verified);
      return ok(verified.verifiedAtMs);
    }
    logRefused(log, verified.error, call);
    return verified;
  };

/** Adds to the problem that a user token was presented as a key. Only its shape is checked. */
const withKindSent = (problem: Problem, presented: string): Problem =>
  problem.code === 'invalid_api_key' && isJwtShaped(presented) ? { ...problem, sent: 'user_token' } : problem;

/** Returns the hint that a key was presented as a user token. Only its shape is checked. */
export const keyInstead = (presented: string | null): { readonly sent?: 'api_key' } =>
  presented !== null && isKeyShaped(presented) ? { sent: 'api_key' } : {};

/** Returns the key that a problem is about, if it is on record. */
export function refusedKeyIn(problem: Problem): Refused | undefined {
  if (problem.code !== 'invalid_api_key' || problem.keyId === undefined) return undefined;
  return { keyId: problem.keyId, keyName: problem.keyName, subject: problem.userId };
}

export function logRefused(log: Log, error: Problem, { requestId, traceId }: RequestIds): void {
  if (error.code === 'invalid_api_key') {
    const { reason, keyId, userId, parentId, fingerprint, sent } = error; // the ids are there only for a key on record
    log.warn('Invalid or expired API key', { requestId, traceId, reason, keyId, userId, parentId, fingerprint, sent });
  }
}
