// Whether the bearer token of an MCP request is good, as a key or as a user token, whatever the request asks for:
// clients sign in again only when told by HTTP. Decides nothing else, and leaves no trace of a good key.

import { isKeyShaped } from '../keys/key-format.ts';
import { type Awaitable, chain } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import { type CredentialedCall, logRefused, type VerifyKey } from './api-key.ts';
import type { VerifyUserJwt } from './user-jwt.ts';

/**
 * Null if there is no bearer token, it is good, or that can't be decided now: then the call decides. With `X-API-Key`
 * beside it, that is the credential.
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
