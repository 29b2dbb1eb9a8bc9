// The API key guard: finds the presented key, has it verified, adds the identity behind it.

import type { Credentials } from '../http/credentials.ts';
import type { KeyIdentity } from '../keys/verify.ts';
import type { Log } from '../log.ts';
import { type Awaitable, chain, err, ok, type Problem, type Result } from '../problem.ts';
import type { Guard } from './guard.ts';

export interface KeyCall {
  readonly requestId: string;
  readonly credentials: Credentials;
  readonly source: () => string;
}

/** What the guard adds. */
export interface KeyAuth {
  readonly auth: KeyIdentity;
}

export type VerifyKey = (token: string, source: () => string) => Awaitable<Result<KeyIdentity, Problem>>;

/** The first place that holds a key decides, even when its key is wrong and a later one is right. */
export const presentedKey = ({ xApiKey, bearer, metaApiKey }: Credentials): string | null =>
  xApiKey ?? bearer ?? metaApiKey;

export function apiKeyGuard(verify: VerifyKey, log: Log): Guard<KeyCall, KeyAuth> {
  function logged(verified: Result<KeyIdentity, Problem>, { requestId }: KeyCall): Result<KeyAuth, Problem> {
    if (verified.ok) {
      const auth = verified.value;
      log.info('API key authentication successful', { requestId, keyId: auth.keyId, userId: auth.subject });
      return ok({ auth });
    }
    if (verified.error.code === 'invalid_api_key') {
      const { reason, keyId, userId } = verified.error; // the ids only of a key that is on record
      log.warn('Invalid or expired API key', { requestId, reason, keyId, userId });
    }
    if (verified.error.code === 'store_unavailable') {
      log.warn('key store out of reach', { requestId, reason: verified.error.reason });
    }
    return verified;
  }
  const decide: Guard<KeyCall, KeyAuth> = (call) => {
    const key = presentedKey(call.credentials);
    if (key === null) {
      log.warn('No API key provided', { requestId: call.requestId });
      return err({ code: 'missing_api_key' });
    }
    return chain(verify(key, call.source), logged, call);
  };
  return Object.assign(decide, { credential: 'api_key' as const });
}
