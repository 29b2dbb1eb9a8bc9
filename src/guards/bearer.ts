// Whether the bearer token of an MCP request is any good, as a key or as a user token, whatever the request asks for: a
// client whose token has ended signs in again if it is told by HTTP. Decides nothing else, and leaves no trace of a key
// that is good.

import { isKeyShaped } from '../keys/key-format.ts';
import { type Awaitable, chain } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import { type CredentialedCall, logRefused, type VerifyKey } from './api-key.ts';
import type { VerifyUserJwt } from './user-jwt.ts';

/**
 * Null if there is none, or if it is good, or if that can't be told now: then what is called tells. `X-API-Key` beside it
 * is the credential of whoever sends both.
 */
export type CheckBearer = (call: CredentialedCall) => Awaitable<Problem | null>;

export function createBearerCheck(verifyUserJwt: VerifyUserJwt, lookAtKey: VerifyKey, log: Log): CheckBearer {
  return (call) => {
    const { bearer, xApiKey } = call.credentials;
    if (bearer === null || xApiKey !== null) return null;
    if (isKeyShaped(bearer)) {
      return chain(lookAtKey(bearer, call), (verified) => {
        if (verified.ok || verified.error.code !== 'invalid_api_key') return null;
        logRefused(log, verified.error, call);
        return verified.error;
      });
    }
    return chain(verifyUserJwt(bearer), (verified) => {
      if (verified.ok || verified.error.code !== 'invalid_token') return null;
      const { requestId, traceId } = call;
      log.warn('Invalid user token', { requestId, traceId, reason: verified.error.reason });
      return verified.error;
    });
  };
}
