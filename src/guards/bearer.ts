// Whether the bearer token of an MCP request is any good, as a key or as a user token, whatever the request asks for: a
// client whose token has ended signs in again if it is told by HTTP. Decides nothing else, and leaves no trace of a key
// that is good.

import type { Credentials } from '../http/credentials.ts';
import type { Caller } from '../keys/actor.ts';
import { isKeyShaped } from '../keys/key-format.ts';
import { type Awaitable, chain } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import { logRefused, type VerifyKey } from './api-key.ts';
import type { VerifyUserJwt } from './user-jwt.ts';

/**
 * Null if there is none, or if it is good, or if that can't be told now: then what is called tells. `X-API-Key` beside it
 * is the credential of whoever sends both.
 */
export type CheckBearer = (credentials: Credentials, caller: Caller) => Awaitable<Problem | null>;

export function createBearerCheck(verifyUserJwt: VerifyUserJwt, lookAtKey: VerifyKey, log: Log): CheckBearer {
  return ({ bearer, xApiKey }, caller) => {
    if (bearer === null || xApiKey !== null) return null;
    if (isKeyShaped(bearer)) {
      return chain(lookAtKey(bearer, caller), (verified) => {
        if (verified.ok || verified.error.code !== 'invalid_api_key') return null;
        logRefused(log, verified.error, caller);
        return verified.error;
      });
    }
    return chain(verifyUserJwt(bearer), (verified) => {
      if (verified.ok || verified.error.code !== 'invalid_token') return null;
      const { requestId, traceId } = caller;
      log.warn('Invalid user token', { requestId, traceId, reason: verified.error.reason });
      return verified.error;
    });
  };
}
