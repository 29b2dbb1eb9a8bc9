// The user JWT guard: takes only `Authorization: Bearer`, has the token verified, and adds who the user is.

import type { Credentials } from '../http/credentials.ts';
import { type Awaitable, chain, err, ok, type Result } from '../lib/result.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { Guard } from './guard.ts';

export interface UserCall {
  readonly requestId: string;
  readonly credentials: Credentials;
}

export interface UserAuth {
  readonly auth: { readonly subject: string };
}

export type VerifyUserJwt = (token: string) => Awaitable<Result<{ readonly subject: string }, Problem>>;

export function userJwtGuard(verify: VerifyUserJwt, log: Log): Guard<UserCall, UserAuth> {
  const decide: Guard<UserCall, UserAuth> = ({ requestId, credentials: { bearer } }) => {
    if (bearer === null) {
      log.warn('No user token provided', { requestId });
      return err({ code: 'missing_token' });
    }
    return chain(verify(bearer), (verified): Result<UserAuth, Problem> => {
      if (verified.ok) return ok({ auth: verified.value });
      if (verified.error.code === 'invalid_token') {
        log.warn('Invalid user token', { requestId, reason: verified.error.reason });
      }
      return verified;
    });
  };
  return Object.assign(decide, { credential: 'user_jwt' as const });
}
